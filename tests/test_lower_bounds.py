"""The oldest supported versions, as .ci/oldest installs them."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[1]


def test_each_dependency_is_pinned_to_the_oldest_version_that_is_allowed() -> None:
    project = _project()
    groups = project["optional-dependencies"]
    names = ("benchmarks", "cluster", "datasets", "exports", "numba", "tables", "test")
    wanted = {*project["dependencies"], *(one for name in names for one in groups[name])}
    wanted -= {"hba-augment[benchmarks,cluster,datasets,exports,numba,tables]"}
    expected = {one.replace(">=", "==") for one in wanted if not one.startswith(("ruff", "mypy"))}
    program = [sys.executable, str(CHECKOUT / ".ci" / "lower_bounds.py"), "test"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == sorted(expected)


def test_the_oldest_versions_are_tested_by_files_that_exist() -> None:
    files = re.findall(r"tests/\S+\.py", (CHECKOUT / ".ci" / "oldest").read_text(encoding="utf-8"))
    assert files
    assert [file for file in files if not (CHECKOUT / file).exists()] == []


def _project() -> Any:
    return tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
