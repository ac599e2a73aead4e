"""What the documentation shows is what the program has: its tables, its examples and its links."""

import json
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from documents import DOCUMENTS, ROOT, text_of
from PIL import Image

import hba
from hba.operations import find_operation
from hba.operations.registration import load_operations_file
from hba.policy.spaces import HEADINGS, SPACES, as_markdown, magnitude_table

BEGIN, END = "<!-- operations: begin -->", "<!-- operations: end -->"
WITH_TESTS_OF_ITS_OWN = "pipelines.md"
"""In test_pipelines_page.py."""
COMPILED_ONLY = "<!-- compiled only -->"
TINY = {"epochs": 2, "batch_size": 8, "device": "cpu"}


def blocks_of(text: str) -> list[str]:
    return [block.strip("\n") for block in re.findall(f"{re.escape(BEGIN)}(.*?){re.escape(END)}", text, re.DOTALL)]


def test_the_tables_of_operations_are_the_generated_ones() -> None:
    """`hba operations --space NAME --markdown` prints what has to stand between the markers."""
    text = text_of("docs/operations.md")
    spaces = ["hba", "pba"]
    assert text.count(BEGIN) == text.count(END) == len(spaces)
    assert blocks_of(text) == [as_markdown(HEADINGS, magnitude_table(SPACES[name])) for name in spaces]


def code_in(language: str) -> list[Any]:
    """Each block of code of that language: its text, and whether it is only compiled."""
    fence = re.compile(rf"^(?P<mark>{COMPILED_ONLY}\n)?```{language}\n(?P<code>.*?)^```", re.DOTALL | re.MULTILINE)
    return [
        pytest.param(found["code"], found["mark"] is not None, id=f"{document.name}-{number}")
        for document in DOCUMENTS
        if document.name != WITH_TESTS_OF_ITS_OWN
        for number, found in enumerate(fence.finditer(text_of(document)))
    ]


@pytest.mark.usefixtures("registered")
def test_the_example_of_an_own_operation_works_as_a_file(tmp_path: Path) -> None:
    (example,) = [param.values[0] for param in code_in("python") if "register_operation(" in str(param.values[0])]
    (tmp_path / "example.py").write_text(str(example), encoding="utf-8")
    (operation,) = load_operations_file(tmp_path / "example.py")
    assert find_operation("Gamma") is operation
    images = torch.rand(2, 3, 4, 4)
    changed = operation(images, torch.tensor([1.0, 2.0]))
    torch.testing.assert_close(changed, torch.stack([images[0], images[1] ** 2]))
    assert operation.strength(1.0) == 0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the examples find: a folder `animals` of small images, a search on it, and its exported schedule."""
    place = tmp_path_factory.mktemp("examples")
    random = np.random.default_rng(0)
    for name in ("cat", "dog", "horse"):
        (place / "animals" / name).mkdir(parents=True)
        for number in range(12):
            pixels = random.integers(0, 256, (16, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(place / "animals" / name / f"{number}.png")
    hba.search(place / "animals", out=place / "runs" / "animals-1", model="wrn-10-1", image_size=8, **TINY)  # type: ignore[arg-type]
    hba.export(place / "runs" / "animals-1", "torchvision", place / "policy_torchvision.py")
    return place


@pytest.fixture
def tiny_trainings(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples run there, and each search and training is as short as can be."""
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(place)
    search, evaluate = hba.search, hba.evaluate

    def short_search(*given: Any, **settings: Any) -> hba.SearchResult:
        model = {} if "network" in settings else {"model": "wrn-10-1"}
        return search(*given, **{**settings, **model, **TINY})

    def short_evaluation(*given: Any, **settings: Any) -> hba.EvaluationResult:
        return evaluate(*given, **{**settings, **TINY, "seeds": 2})

    monkeypatch.setattr(hba, "search", short_search)
    monkeypatch.setattr(hba, "evaluate", short_evaluation)


@pytest.mark.usefixtures("tiny_trainings")
@pytest.mark.parametrize(("code", "is_compiled_only"), code_in("python"))
def test_examples_in_python_run(code: str, is_compiled_only: bool, tmp_path: Path) -> None:
    compile(code, "example.py", "exec")
    if is_compiled_only or "register_operation(" in code:
        return
    (tmp_path / "example.py").write_text(code, encoding="utf-8")
    runpy.run_path(str(tmp_path / "example.py"), run_name="__main__")


@pytest.mark.parametrize(("code", "is_compiled_only"), code_in("json"))
def test_schedules_in_the_documentation_load(code: str, is_compiled_only: bool, tmp_path: Path) -> None:
    assert not is_compiled_only
    (tmp_path / "a.json").write_text(code, encoding="utf-8")
    schedule = hba.load_policy(tmp_path / "a.json")
    assert json.loads(schedule.text()) == json.loads(code)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_links_and_paths_lead_to_something(document: Path) -> None:
    text = text_of(document)
    prose = re.sub(r"^```.*?^```|`[^`]+`", "", text, flags=re.DOTALL | re.MULTILINE)
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", prose) if "://" not in link]
    missing = [link for link in links if link and not (document.parent / link).exists()]
    folders = r"(?:hba|cli|policies|tests|benchmarks|docs|examples)"
    named = re.findall(rf"(?<![\w./-]){folders}/[\w./-]*\.(?:py|md|png)\b", text)
    missing += [name for name in named if not (ROOT / name).exists()]
    assert missing == []


def test_each_page_is_once_in_the_site_and_named_by_its_first_page() -> None:
    pages = sorted(path.name for path in (ROOT / "docs").glob("*.md"))
    listed = re.findall(r"^ +- (\S+\.md)$", text_of("mkdocs.yml"), re.MULTILINE)
    assert sorted(listed) == pages
    linked = re.findall(r"\]\((\S+\.md)\)", text_of("docs/index.md"))
    assert sorted(linked) == [page for page in pages if page != "index.md"]


def test_the_site_links_to_examples_and_to_no_other_file_beside_it() -> None:
    pytest.importorskip("mkdocs")
    hook = runpy.run_path(str(ROOT / ".ci" / "site_links.py"))["on_page_markdown"]
    page = "[one](../examples/loggers.py), [all](../examples/pipelines), [code](../hba/errors.py), [page](method.md)"
    assert hook(page) == "[one](examples/loggers.py), all, code, [page](method.md)"
