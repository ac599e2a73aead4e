"""What the operations are is known without PyTorch: the command that prints it has no seconds to wait for."""

import subprocess
import sys
from pathlib import Path

import hba.cli
import pytest

import hba
import hba.operations
from hba.policy.spaces import HEADINGS, SPACES, as_markdown, magnitude_table

SLOW = ("torch", "torchvision", "kornia", "numpy", "scipy", "matplotlib")
WITHOUT_OTHER_MODULES = """
import sys, types
for name, folder in {folders}:
    package = types.ModuleType(name)
    package.__path__ = [folder]
    sys.modules[name] = package
"""
"""The packages themselves may import anything; here only what is asked for counts."""

MODULES = (
    "hba.operations",
    "hba.operations.table",
    "hba.operations.registration",
    "hba.policy.space",
    "hba.policy.spaces",
    "hba.policy.spaces",
)


def printed(code: str) -> str:
    """What a new interpreter prints that runs the code and then tells which slow packages it has imported."""
    folders = [("hba", str(Path(hba.__file__).parent)), ("hba.cli", str(Path(hba.cli.__file__).parent))]
    told = f"\nprint([name for name in {SLOW} if name in sys.modules])"
    command = [sys.executable, "-c", WITHOUT_OTHER_MODULES.format(folders=folders) + code + told]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("module", MODULES)
def test_a_module_of_facts_imports_nothing_slow(module: str) -> None:
    assert printed(f"import {module}") == "[]\n"


def test_ranges_and_interpolations_are_changed_without_anything_slow() -> None:
    code = "from hba.policy.spaces import search_space\nprint(search_space('pba', ['Rotate'], 'bilinear').ranges)"
    assert printed(code) == "((0.0, 1.0), (0.0, 30.0), (0.0, 1.0), (0.0, 30.0))\n[]\n"


@pytest.mark.parametrize("space", SPACES)
def test_the_command_prints_its_table_without_anything_slow(space: str) -> None:
    arguments = ["--space", space, "--markdown"]
    code = f"from hba.cli.listings import operations\noperations({arguments}, standalone_mode=False)"
    table = as_markdown(HEADINGS, magnitude_table(SPACES[space]))
    assert printed(code) == f"{table}\n[]\n"


def test_using_an_operation_imports_torch() -> None:
    assert "'torch'" in printed("from hba.operations import apply_steps")


@pytest.mark.parametrize("name", hba.operations.__all__)
def test_every_public_name_is_found(name: str) -> None:
    assert getattr(hba.operations, name) is not None


def test_another_name_is_not_found() -> None:
    with pytest.raises(AttributeError, match=r"module 'hba\.operations' has no attribute 'nothing'"):
        _ = hba.operations.nothing  # type: ignore[attr-defined]
