"""What does no computing starts at once: neither an import of hba nor a command that only prints imports PyTorch."""

import importlib
import os
import subprocess
import sys

import click
import pytest
from click.formatting import HelpFormatter
from commands import command_of, run
from hba.cli.main import COMMANDS

import hba

SLOW = ("torch", "torchvision", "kornia", "numpy", "scipy", "matplotlib", "pydantic")
IMPORTED = f"import sys; print([name for name in {SLOW} if name in sys.modules], file=sys.stderr)"


def printed(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What a new interpreter prints that runs the code."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["policies"], ["presets"], ["operations"]],
    ids=lambda arguments: arguments[0],
)
def test_a_command_that_only_prints_imports_nothing_slow(arguments: list[str]) -> None:
    code = (
        f"import atexit\natexit.register(lambda: exec({IMPORTED!r}, {{}}))\nfrom hba.cli import main\nmain({arguments})"
    )
    done = printed(code)
    assert done.stderr == "[]\n"
    assert done.stdout.split()[2:] == run(*arguments).stdout.split()[2:]


def test_an_import_of_hba_imports_nothing_slow_and_neither_does_its_list_of_schedules() -> None:
    assert printed(f"import hba; hba.policy_names(); dir(hba); {IMPORTED}").stderr == "[]\n"


def test_an_import_of_hba_changes_no_environment_variable() -> None:
    code = "import os; before = dict(os.environ); import hba; hba.search; print(dict(os.environ) == before)"
    assert printed(code).stdout == "True\n"


SAY_POLICY = "import os; print(os.environ.get('OMP_WAIT_POLICY'))"


@pytest.mark.parametrize(("given", "taken"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
@pytest.mark.parametrize(
    "start",
    ["from hba.cli import main", "import runpy\ndef main(): runpy.run_module('hba', run_name='__main__')"],
    ids=["hba", "python -m hba"],
)
def test_a_command_sets_how_threads_wait_before_torch_is_loaded(
    start: str, given: str | None, taken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    at_exit = f"import atexit\natexit.register(lambda: exec({SAY_POLICY!r}, {{}}))"
    done = printed(
        f"{at_exit}\nimport sys\nsys.argv = ['hba', '--version']\n{start}\nmain()",
        **({} if given is None else {"OMP_WAIT_POLICY": given}),
    )
    assert done.stdout.splitlines() == [f"hba, version {hba.__version__}", taken]


@pytest.mark.parametrize("name", [*hba.__all__, "algorithms", "data", "errors", "operations", "schedule"])
def test_every_public_name_is_found_and_listed(name: str) -> None:
    assert name in dir(hba)
    assert getattr(hba, name) is not None


@pytest.mark.parametrize("package", ["config", "operations", "policy", "schedule"])
def test_every_public_name_of_a_folder_is_found(package: str) -> None:
    module = importlib.import_module(f"hba.{package}")
    assert [name for name in module.__all__ if getattr(module, name, None) is None] == []
    assert set(module.__all__) <= set(dir(module))


def test_a_name_that_is_not_there_is_told_as_by_any_module() -> None:
    with pytest.raises(AttributeError, match="module 'hba' has no attribute 'serch'"):
        _ = hba.serch  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="cannot import name 'serch' from 'hba'"):
        exec("from hba import serch")


def test_the_list_of_commands_says_of_each_the_first_sentence_of_its_own_help() -> None:
    for name, listed in COMMANDS.items():
        assert listed.short_help == command_of(name).get_short_help_str(limit=1000), name


def test_every_command_of_the_list_is_there_and_no_other() -> None:
    formatter = HelpFormatter(width=1000)
    main = importlib.import_module("hba.cli.main").main
    main.format_commands(click.Context(main, **main.context_settings), formatter)
    lines = formatter.getvalue().splitlines()[1:]
    assert [line.split()[0] for line in lines] == list(COMMANDS)
    assert [command_of(name).name for name in COMMANDS] == list(COMMANDS)
