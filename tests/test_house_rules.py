"""How large the project may be: files, functions, and totals by folder. To raise a ceiling is a decision."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("hba", "cli", "policies", "benchmarks", "examples", "tests", ".ci")
MOST_LINES_OF_A_FILE = 399
MOST_LINES_OF_A_FUNCTION = 59
MOST_BYTES_OF_A_FILE = 4_000_000
MOST_LINES = {"hba": 25_300, "cli": 2_120, "benchmarks": 4_810, "tests": 23_850}
"""Of all Python files of a folder."""
MOST_FILES = {"hba": 184, "cli": 14}
MOST_CASES = 1_290
"""Test cases of the default run."""


def sources(folder: str) -> dict[str, str]:
    return {str(file.relative_to(ROOT)): file.read_text("utf-8") for file in sorted((ROOT / folder).rglob("*.py"))}


def lines_of_code(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """From `def` to the last line, without the docstring."""
    assert function.end_lineno is not None
    whole = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is None or first.end_lineno is None:
        return whole
    return whole - (first.end_lineno - first.lineno + 1)


def long_functions(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and lines_of_code(node) > MOST_LINES_OF_A_FUNCTION:
            yield f"{node.name} has {lines_of_code(node)} lines"


@pytest.mark.parametrize("folder", FOLDERS)
def test_files_and_functions_are_short(folder: str) -> None:
    found = []
    for name, source in sources(folder).items():
        if (n_lines := len(source.splitlines())) > MOST_LINES_OF_A_FILE:
            found.append(f"{name} has {n_lines} lines")
        found += [f"{name}: {one}" for one in long_functions(source)]
    assert found == []


def test_folders_keep_their_totals() -> None:
    lines = {folder: sum(len(one.splitlines()) for one in sources(folder).values()) for folder in MOST_LINES}
    files = {folder: len(sources(folder)) for folder in MOST_FILES}
    assert {folder: n for folder, n in lines.items() if n > MOST_LINES[folder]} == {}
    assert {folder: n for folder, n in files.items() if n > MOST_FILES[folder]} == {}


def test_the_default_run_has_few_cases(request: pytest.FixtureRequest) -> None:
    assert len(request.session.items) <= MOST_CASES


def test_no_file_of_the_repository_is_large() -> None:
    """As a package that was downloaded here by mistake would be."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout of git")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    files = [ROOT / name for name in listed.split("\0") if name]
    assert [file.name for file in files if file.exists() and file.stat().st_size > MOST_BYTES_OF_A_FILE] == []
