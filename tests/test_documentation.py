"""The documentation shows what the program has: its tables, examples, links and public
names.
"""

import importlib
import json
import re
import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from documents import DOCUMENTS, ROOT, TINY, blocks_of, make_images, make_runs, text_of
from hba.cli import main

import hba

LONG_EXAMPLES = {"extending.md", "searching.md"}
LISTING = (
    "hba",
    "hba.algorithms",
    "hba.data",
    "hba.exports",
    "hba.importers",
    "hba.policy_evaluation",
    "hba.tasks",
)
"""Modules whose `__all__` is for users."""
OPEN = ("hba.errors",)
"""Modules whose public functions and classes are all for users."""


def test_the_tables_of_operations_are_the_generated_ones() -> None:
    begin = "<!-- operations: begin -->\n"
    end = "\n<!-- operations: end -->"
    tables = re.findall(f"{begin}(.*?){end}", text_of("docs/operations.md"), re.DOTALL)
    commands = [
        ["operations", "--space", name, "--markdown"] for name in ("full", "pba")
    ]
    assert tables == [
        CliRunner().invoke(main, command).output.strip() for command in commands
    ]


def test_links_and_paths_lead_to_something() -> None:
    missing = []
    for document in DOCUMENTS:
        text = text_of(document)
        prose = re.sub(r"^```.*?^```|`[^`]+`", "", text, flags=re.DOTALL | re.MULTILINE)
        links = [
            link.partition("#")[0]
            for link in re.findall(r"\]\(([^)]+)\)", prose)
            if "://" not in link
        ]
        missing += [
            (document.name, link)
            for link in links
            if link and not (document.parent / link).exists()
        ]
        if document.name == "CHANGELOG.md":
            continue  # it names what was there
        folders = r"(?:hba|cli|policies|tests|benchmarks|docs|examples)"
        named = re.findall(rf"(?<![\w./-]){folders}/[\w./-]*\.(?:py|md|png)\b", text)
        missing += [
            (document.name, name) for name in named if not (ROOT / name).exists()
        ]
    assert missing == []


def test_each_page_is_in_the_site_and_linked_from_its_first_page() -> None:
    pages = sorted(path.name for path in (ROOT / "docs").glob("*.md"))
    assert (
        sorted(re.findall(r"^ +- (\S+\.md)$", text_of("mkdocs.yml"), re.MULTILINE))
        == pages
    )
    linked = re.findall(r"\]\((\S+\.md)\)", text_of("docs/index.md"))
    assert sorted([*linked, "index.md"]) == pages


def test_the_reference_has_every_public_name_once() -> None:
    """By that name, or by the one that the same object has elsewhere."""
    names = re.findall(
        r"^::: (\S+)$", text_of("docs/reference-python.md"), re.MULTILINE
    )
    assert sorted(set(names)) == sorted(names)
    stated = [_value_of(name) for name in names]
    missing = [
        f"{module}.{name}"
        for module in (*LISTING, *OPEN)
        for name, value in _public(module).items()
        if not any(value is documented for documented in stated)
    ]
    assert missing == []


def _public(module: str) -> dict[str, Any]:
    imported = importlib.import_module(module)
    if module in LISTING:
        return {
            name: getattr(imported, name)
            for name in imported.__all__
            if name != "__version__"
        }
    return {
        name: value
        for name, value in vars(imported).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module
    }


def _value_of(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def test_schedules_in_the_documentation_load(tmp_path: Path) -> None:
    examples = blocks_of(text_of("docs/schedule-files.md"), "json")
    assert examples
    for text in examples:
        (tmp_path / "a.json").write_text(text, encoding="utf-8")
        assert json.loads(hba.load_policy(tmp_path / "a.json").text()) == json.loads(
            text
        )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder `animals` of small images, a search on it, and its exported schedule."""
    place = tmp_path_factory.mktemp("examples")
    make_images(place / "animals")
    make_runs(place, ["animals-1"])
    shutil.copytree(place / "runs" / "animals-1", place / "runs" / "cells-1")
    hba.export(
        place / "runs" / "animals-1", "torchvision", place / "policy_torchvision.py"
    )
    return place


def _documents_with_examples() -> list[Any]:
    documents = [path for path in DOCUMENTS if "```python" in text_of(path)]
    marks = [
        [pytest.mark.slow] if path.name in LONG_EXAMPLES else [] for path in documents
    ]
    return [
        pytest.param(path, id=path.name, marks=slow)
        for path, slow in zip(documents, marks, strict=True)
    ]


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("document", _documents_with_examples())
def test_examples_in_python_run(
    document: Path, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the folder above, with the shortest searches; snippets for other libraries are
    in test_examples.py.
    """
    search = hba.search
    evaluate = hba.evaluate
    train = hba.train
    short = {name: TINY[name] for name in ("epochs", "batch_size", "device")}

    def short_search(*arguments: Any, **settings: Any) -> hba.SearchResult:
        model = {} if "network" in settings else {"model": TINY["model"]}
        return search(*arguments, **{**settings, **model, **short})

    def short_evaluation(*arguments: Any, **settings: Any) -> hba.EvaluationResult:
        return evaluate(*arguments, **{**settings, **short, "seeds": 2}, jobs=1)

    def short_training(*arguments: Any, **settings: Any) -> hba.TrainedNetwork:
        return train(*arguments, **{**settings, **short, "model": TINY["model"]})

    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(place)
    monkeypatch.setattr(hba, "search", short_search)
    monkeypatch.setattr(hba, "evaluate", short_evaluation)
    monkeypatch.setattr(hba, "train", short_training)
    text = (
        text_of(document).split("\n## In other libraries")[0]
        if document.name == "pipelines.md"
        else text_of(document)
    )
    for number, code in enumerate(blocks_of(text, "python")):
        script = tmp_path / f"example{number}.py"
        script.write_text(code, encoding="utf-8")
        runpy.run_path(str(script), run_name="__main__")
