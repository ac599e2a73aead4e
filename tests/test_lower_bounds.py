"""The oldest supported versions, as .ci/oldest installs them."""

import subprocess
import sys
import tomllib
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]


def test_each_dependency_is_pinned_to_the_oldest_version_that_is_allowed() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = project["optional-dependencies"]
    names = ("benchmarks", "datasets", "exports", "tables", "test")
    wanted = {*project["dependencies"], *(one for name in names for one in groups[name])}
    wanted -= {"hba-augment[benchmarks,datasets,exports,tables]"}
    expected = {one.replace(">=", "==") for one in wanted if not one.startswith(("ruff", "mypy"))}
    program = [sys.executable, str(CHECKOUT / ".ci" / "lower_bounds.py"), "test"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == sorted(expected)
