"""Who imports whom: files and folders stand in a line, so that each can be read without
those above it.
"""

import ast
import graphlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINE = (
    ("errors",),
    ("utils",),
    ("tasks",),
    ("operations", "models", "hypernet", "data"),
    ("preprocessing", "packed"),
    ("regularization",),
    ("policy",),
    ("schedule", "config"),
    ("training", "exports", "importers"),
    ("executors",),
    ("algorithms",),
    ("results",),
    ("policy_search", "policy_evaluation", "own_training"),
    ("policy_choice",),
    ("text",),
    ("report",),
    ("__init__",),
    ("__main__",),
)
"""Folders, and files of the root, from the ground up: each may import those before it.
"""
BESIDE = {("models", "hypernet")}
"""In the same place of the line: the first may import the second too."""

HOOK = ("hba.results.report_hook", "hba.report.page")
"""The one import against the line: runs write their page when they end."""

Imports = Mapping[str, set[str]]


@cache
def imports_of(package: str) -> Imports:
    """By module of a package, the modules of the package that it imports, in functions
    too.

    A module that is called `package` is the package's own __init__.py.
    """
    files = {
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(
            ".__init__"
        ): file
        for file in (ROOT / package).rglob("*.py")
    }
    return {
        module: set(_imported(file, module, files)) for module, file in files.items()
    }


def _imported(file: Path, module: str, files: Mapping[str, Path]) -> Iterator[str]:
    inside = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in files)
        elif isinstance(node, ast.ImportFrom):
            above = inside[: len(inside) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            named = [f"{source}.{alias.name}" for alias in node.names]
            yield from (
                name if name in files else source
                for name in named
                if name in files or source in files
            )


def between_folders(imports: Imports) -> Imports:
    """The same for folders, and for files of the root, without what a folder imports of
    itself.
    """
    imported_by: dict[str, set[str]] = {}
    for module, imported in imports.items():
        imported_by.setdefault(_room(module), set()).update(
            _room(name) for name in imported
        )
    return {room: rooms - {room} for room, rooms in imported_by.items()}


def _room(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def folders_of_hba() -> Imports:
    """By folder of hba, the folders that it imports, but for the hook."""
    without_hook = {
        module: imported - {HOOK[1]} if module == HOOK[0] else imported
        for module, imported in imports_of("hba").items()
    }
    return between_folders(without_hook)


def test_nothing_imports_itself_by_way_of_others() -> None:
    """Files, and folders; what only a type checker imports counts too. A circle raises
    CycleError, which names it.
    """
    for imports in (imports_of("hba"), imports_of("cli"), folders_of_hba()):
        graphlib.TopologicalSorter(imports).prepare()


def test_every_folder_imports_only_those_before_it_in_the_line() -> None:
    place = {room: number for number, rooms in enumerate(LINE) for room in rooms}
    wrong = [
        (room, other)
        for room, rooms in folders_of_hba().items()
        for other in rooms
        if place[other] >= place[room] and (room, other) not in BESIDE
    ]
    assert wrong == []


def test_the_root_holds_no_loose_files() -> None:
    assert {file.name for file in (ROOT / "hba").glob("*.py")} == {
        "__init__.py",
        "__main__.py",
        "errors.py",
    }
