"""Rules of CONTRIBUTING that a program can check: how long files and functions are."""

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


def lines_of_code(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """From `def` to the last line, but the docstring: what is told of a function does not make it longer."""
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
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    found = []
    for file in files:
        source = file.read_text(encoding="utf-8")
        if (n_lines := len(source.splitlines())) > MOST_LINES_OF_A_FILE:
            found.append(f"{file.relative_to(ROOT)} has {n_lines} lines")
        found += [f"{file.relative_to(ROOT)}: {one}" for one in long_functions(source)]
    assert found == []


def test_a_function_is_as_long_as_its_lines_without_the_docstring() -> None:
    body = "    x = 1\n" * MOST_LINES_OF_A_FUNCTION
    assert list(long_functions(f'def f():\n    """One\n\n    two."""\n{body[10:]}')) == []
    assert list(long_functions(f"def f():\n{body}")) == [f"f has {MOST_LINES_OF_A_FUNCTION + 1} lines"]


def test_no_file_of_the_repository_is_large() -> None:
    """As a package that was downloaded here by mistake would be."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout of git")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    files = [ROOT / name for name in listed.split("\0") if name]
    assert len(files) > 100
    assert [file.name for file in files if file.exists() and file.stat().st_size > MOST_BYTES_OF_A_FILE] == []
