"""Who imports whom: files and folders stand in a line, so that each can be read without those above it."""

import ast
import graphlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINE = (
    ("errors",),
    ("utils",),
    ("distributed",),
    ("operations", "models", "hypernet", "data"),
    ("preprocessing", "packed"),
    ("regularization",),
    ("policy",),
    ("schedule", "config"),
    ("training", "exports", "importers"),
    ("executors",),
    ("algorithms",),
    ("report",),
    ("policy_search", "policy_evaluation"),
    ("text",),
    ("__init__",),
    ("__main__",),
)
"""Folders, and files of the root, from the ground up: each may import those before it."""
BESIDE = {("models", "hypernet")}
"""In the same place of the line: the first may import the second too."""

Imports = Mapping[str, set[str]]


def imports_of(folder: Path, package: str) -> Imports:
    """By module of a package, the modules of the package that it imports, in functions too.

    A module that is called `package` is the package's own __init__.py.
    """
    files = {_module(file, folder, package): file for file in folder.rglob("*.py")}
    return {module: set(_imported(file, module, files)) for module, file in files.items()}


def _module(file: Path, folder: Path, package: str) -> str:
    return ".".join([package, *file.relative_to(folder).with_suffix("").parts]).removesuffix(".__init__")


def _imported(file: Path, module: str, files: Mapping[str, Path]) -> Iterator[str]:
    inside = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in files)
        elif isinstance(node, ast.ImportFrom):
            above = inside[: len(inside) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                if f"{source}.{alias.name}" in files:
                    yield f"{source}.{alias.name}"
                elif source in files:
                    yield source


def between_folders(imports: Imports) -> Imports:
    """The same for folders, and for files of the root, without what a folder imports of itself."""
    found: dict[str, set[str]] = {}
    for module, imported in imports.items():
        found.setdefault(_room(module), set()).update(_room(name) for name in imported)
    return {room: others - {room} for room, others in found.items()}


def _room(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def circle_in(imports: Imports) -> list[str] | None:
    """The modules of a circle of imports, None where there is none."""
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return None


HBA = imports_of(ROOT / "hba", "hba")


@pytest.mark.parametrize("package", ["hba", "cli"])
def test_no_file_imports_itself_by_way_of_others(package: str) -> None:
    """What only a type checker imports counts too."""
    assert circle_in(imports_of(ROOT / package, package)) is None


def test_no_folder_imports_itself_by_way_of_others() -> None:
    assert circle_in(between_folders(HBA)) is None


def test_every_folder_imports_only_those_before_it_in_the_line() -> None:
    place = {room: number for number, rooms in enumerate(LINE) for room in rooms}
    wrong = [
        (room, other)
        for room, others in between_folders(HBA).items()
        for other in others
        if place[other] >= place[room] and (room, other) not in BESIDE
    ]
    assert wrong == []


def test_the_root_holds_no_loose_files() -> None:
    assert {file.name for file in (ROOT / "hba").glob("*.py")} == {"__init__.py", "__main__.py", "errors.py"}
