"""The facts about operations are known without PyTorch, so that they can be printed at once."""

import subprocess
import sys

import pytest

import hba.operations
from hba.policy.spaces import HEADINGS, SPACES, as_markdown, magnitude_table

SLOW = ("torch", "torchvision", "kornia", "numpy", "scipy", "matplotlib")


def test_facts_import_nothing_slow() -> None:
    code = (
        "import hba.operations.registration, hba.policy.spaces\n"
        "from hba.policy.spaces import search_space\nprint(search_space('pba', ['Rotate'], 'bilinear').ranges[1])\n"
        "from hba.policy.spaces import HEADINGS, SPACES, as_markdown, magnitude_table\n"
        "print(as_markdown(HEADINGS, magnitude_table(SPACES['pba'])))\n"
        f"import sys\nprint([name for name in {SLOW} if name in sys.modules])\n"
        "from hba.operations import apply_steps\nprint('torch' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    table = as_markdown(HEADINGS, magnitude_table(SPACES["pba"]))
    assert printed == f"(0.0, 30.0)\n{table}\n[]\nTrue\n"


def test_every_public_name_is_found() -> None:
    assert all(getattr(hba.operations, name) is not None for name in hba.operations.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        _ = hba.operations.nothing  # type: ignore[attr-defined]
