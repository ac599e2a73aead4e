"""What the documentation shows is what the program has: its tables, its examples, its commands and its links."""

import json
import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import torch
from hba.cli import main
from PIL import Image

import hba
from hba.operations import find_operation
from hba.operations.from_file import load_operations_file
from hba.policy.magnitude_table import HEADINGS, as_markdown, magnitude_table
from hba.policy.spaces import SPACES

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md"))]
BEGIN, END = "<!-- operations: begin -->", "<!-- operations: end -->"
COMPILED_ONLY = "<!-- compiled only -->"
TINY = {"epochs": 2, "batch_size": 8, "device": "cpu"}


def text_of(document: str | Path) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


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


def commands_of_hba() -> list[Any]:
    """Each call of hba, in blocks of code and in the text, as words."""
    found = []
    for document in DOCUMENTS:
        text = text_of(document)
        blocks = "\n".join(re.findall(r"^```(?:bash|console)\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
        spans = [" ".join(span.split()) for span in re.findall(r"`(hba [^`]+)`", text)]
        calls = [call.strip() for line in blocks.splitlines() for call in re.split(r"&&|^\$ ", line)]
        for call in dict.fromkeys([*spans, *calls]):
            if call.startswith("hba "):
                found.append(pytest.param(shlex.split(call, comments=True)[1:], id=f"{document.name}: {call}"))
    return found


@pytest.mark.parametrize("words", commands_of_hba())
def test_commands_in_the_documentation_have_their_options(words: list[str]) -> None:
    context = click.Context(main, **main.context_settings)
    command = main if words[0].startswith("-") else main.get_command(context, words[0])
    assert command is not None, words[0]
    known = {name for option in command.get_params(context) for name in (*option.opts, *option.secondary_opts)}
    assert {word for word in words if word.startswith("-")} <= known


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
