"""What computes nothing starts at once: an import of hba and commands that only print do not import PyTorch."""

import os
import subprocess
import sys
import time

import pytest

import hba

SLOW = ("torch", "torchvision", "kornia", "numpy", "scipy", "matplotlib", "pydantic")
PROGRAM = f"""
import os, sys
before = dict(os.environ)
import hba
hba.policy_names(), dir(hba), hba.search_space
assert dict(os.environ) == before
from hba.cli import main
for arguments in (["--help"], ["--version"], ["policies"], ["presets"], ["operations"]):
    try:
        main(arguments)
    except SystemExit:
        pass
print([name for name in {SLOW} if name in sys.modules], os.environ["OMP_WAIT_POLICY"], file=sys.stderr)
"""


def test_printing_commands_import_nothing_slow() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == "[] PASSIVE\n"
    assert f"version {hba.__version__}" in done.stdout


@pytest.mark.slow
def test_an_import_takes_less_than_a_tenth_of_a_second() -> None:
    program = "import time; began = time.process_time(); import hba; print(time.process_time() - began)"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert float(printed) < 0.1
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "hba", "--help"], capture_output=True, check=True)
    assert time.monotonic() - began < 2


def test_every_public_name_is_found() -> None:
    for name in hba.__all__:
        assert name in dir(hba)
        assert getattr(hba, name) is not None
    with pytest.raises(AttributeError, match="serch"):
        _ = hba.serch  # type: ignore[attr-defined]
