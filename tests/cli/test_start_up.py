"""What computes nothing starts at once: an import of hba and commands that only print
do not import PyTorch.
"""

import os
import subprocess
import sys
from pathlib import Path

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
print([name for name in {SLOW} if name in sys.modules], \
os.environ["OMP_WAIT_POLICY"], file=sys.stderr)
"""


def test_printing_commands_import_nothing_slow() -> None:
    environment = {
        name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == "[] PASSIVE\n"
    assert f"version {hba.__version__}" in done.stdout


def test_every_public_name_is_found() -> None:
    for name in hba.__all__:
        assert name in dir(hba)
        assert getattr(hba, name) is not None
    with pytest.raises(AttributeError, match="serch"):
        _ = hba.serch  # type: ignore[attr-defined]


def run_in_a_shell(
    command: str, folder: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command of a shell, which knows the program `hba`."""
    variables = {**os.environ, **environment, "PYTHON": sys.executable}
    shell = ["bash", "-c", f'hba() {{ "$PYTHON" -m hba "$@"; }}; {command}']
    return subprocess.run(
        shell,
        env=variables,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.skipif(os.name != "posix", reason="needs a shell of POSIX")
def test_commands_need_no_standard_streams(tmp_path: Path) -> None:
    for closed in (
        "operations >&- 2>&-",
        "policies <&- >/dev/null",
        "operations 2>&1 | head -n 1 >/dev/null",
    ):
        done = run_in_a_shell(f"set -o pipefail; hba {closed}", tmp_path)
        assert done.returncode == 0
        assert done.stderr == ""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs a shell of POSIX")
def test_variables_of_a_notebook_change_nothing(tmp_path: Path) -> None:
    """Jupyter sets them for a program that writes into a pipe, too."""
    backend = "module://not_installed.backend_inline"
    done = run_in_a_shell(
        "hba show digits --out picture.png",
        tmp_path,
        MPLBACKEND=backend,
        FORCE_COLOR="1",
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "picture.png").stat().st_size > 0
    assert "\x1b" not in done.stdout
