"""What the documentation tells people to type works: it is run on tiny files, or it is said here why it is not."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import click
import pytest
from benchmark_modules import module
from click.testing import CliRunner
from documented_files import TINY, TINY_TEXT, make_documented_files, make_saved_dataset, make_weights
from documents import ROOT, Command, commands_in_blocks, commands_in_sentences
from hba.cli import main

import hba

NOT_RUN: Mapping[str, str] = {
    "git clone": "needs an address",
    "cd hba": "belongs to the line before",
    "python -m venv": "makes an environment",
    "source .venv/bin/activate": "belongs to the line before",
    "pip install": "changes the environment of the tests",
    "ruff": "is what .ci/run does",
    "mypy": "is what .ci/run does",
    "pytest": "is what runs this",
    "ray start": "makes a cluster, as tests/ray_machines.py does",
    "hba evaluate runs/animals-1 --against none,random,shuffled --seeds 10 --cluster": "needs a cluster",
    "torchrun": "is run by tests/cli/test_torchrun.py",
    "python benchmarks/": "takes minutes, or rewrites pages; its options are parsed",
    "python examples/draw_overview.py": "is run by test_example.py",
    "hba search --preset reduced-cifar10 --data-root data --download": "downloads CIFAR-10",
    "hba evaluate runs/cifar10-1/policy.json --preset cifar10-wrn-28-10 --download": "downloads CIFAR-10",
    "hba search DIR --model timm:resnet18 --pretrained --epochs": "downloads weights",
    "hba search DIR --model timm:convnext_atto --pretrained": "downloads weights",
}
"""How a line begins that is not run here, and why not."""
SLOW = ("hba search saved_dataset", "hba search DIR --model timm:", "hba search digits --budget")
"""The libraries of the first two alone take long to import; the last one takes its time."""
SMALLER: Mapping[str, str] = {
    "--train-size": "16",
    "--val-size": "8",
    "--seeds": "2",
    "--epochs": "3",
    "--budget": "20s",
}
"""Of options that a line has, in the place of their values."""
SEARCH: Mapping[str, str] = {f"--{name.replace('_', '-')}": str(value) for name, value in TINY.items()}
EVALUATION: Mapping[str, str] = {
    **{name: SEARCH[name] for name in ("--epochs", "--batch-size", "--device")},
    "--seeds": "2",
}
"""The network and the size of images are those of the search."""
OF_TEXT: Mapping[str, Mapping[str, str]] = {
    "search-text": {f"--{name.replace('_', '-')}": str(value) for name, value in TINY_TEXT.items()},
    "evaluate-text": {"--seeds": "2"},
}


def is_run(command: Command) -> bool:
    return not any(command.typed.startswith(start) for start in NOT_RUN)


def shortened(words: list[str]) -> list[str]:
    """The same command, as short as can be: of an option that is given twice, click takes the last value."""
    further = {option: value for option, value in SMALLER.items() if option in words}
    if words[0] in OF_TEXT:
        return [*words, *(part for pair in OF_TEXT[words[0]].items() for part in pair)]
    if not {"--resume", "--config"} & {*words}:
        further |= {"search": SEARCH, "evaluate": EVALUATION}.get(words[0], {})
    if any(word.startswith("timm:") for word in words):
        further = {**further, "--image-size": "32"}
        del further["--model"]
    if {"stn", "delta-stn"} & {*words}:
        # Theirs is longer than so short a search.
        further = {**further, "--warm-up-epochs": "0"}
    if "--budget" in words:
        del further["--epochs"]
    return [*words, *(part for pair in further.items() for part in pair)]


COMMANDS = commands_in_blocks()
RUN = [command for command in COMMANDS if is_run(command)]


@pytest.fixture(scope="module")
def documented(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, weights = tmp_path_factory.mktemp("documented"), tmp_path_factory.mktemp("weights") / "weights.pth"
    make_documented_files(folder, weights)
    return folder


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    "command",
    [pytest.param(one, id=str(one), marks=pytest.mark.slow if one.typed.startswith(SLOW) else ()) for one in RUN],
)
def test_it_runs(command: Command, documented: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, *words = command.words
    assert program == "hba", "a command that is not of hba must stand in NOT_RUN, with the reason"
    place = tmp_path / "place"
    shutil.copytree(documented, place, symlinks=True)
    monkeypatch.chdir(place)
    if "saved_dataset" in words:
        pytest.importorskip("datasets")
        make_saved_dataset(place)
    if "DIR.hba" in words and words[0] != "prepare":
        hba.data.prepare("DIR", "DIR.hba", image_size=TINY["image_size"])
    if "runs/DIR-seeds" in words and words[0] != "search":
        hba.repeated_search("DIR", seeds=2, out="runs/DIR-seeds", **TINY)
    if "weights.pth" in words:
        pytest.importorskip("timm")
        make_weights((place / "weights.pth").readlink())
    monkeypatch.setattr("hba.policy_evaluation.baseline_augmentations.N_DRAWS", 128)
    result = CliRunner().invoke(main, shortened(words))
    assert result.exit_code == 0, result.output + repr(result.exception)
    assert "hba: " not in result.stderr
    assert "--out" not in words or Path(words[words.index("--out") + 1]).exists()


def test_what_is_not_run_stands_in_the_documentation() -> None:
    typed = [command.typed for command in COMMANDS]
    assert [start for start in NOT_RUN if not any(one.startswith(start) for one in typed)] == []


NOT_RUN_HERE = [one for one in COMMANDS if not is_run(one) and one.typed.startswith(("hba ", "python benchmarks/"))]


@pytest.mark.usefixtures("benchmarks_can_be_imported")
@pytest.mark.parametrize("command", NOT_RUN_HERE, ids=str)
def test_what_is_not_run_takes_its_options_and_their_values(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "DIR").mkdir()
    called, words = called_by(command)
    assert called.make_context(command.document, words).args == []


@pytest.mark.usefixtures("benchmarks_can_be_imported")
@pytest.mark.parametrize("command", commands_in_sentences(), ids=str)
def test_commands_in_sentences_have_their_options(command: Command) -> None:
    called, words = called_by(command)
    options = called.get_params(click.Context(called, **main.context_settings))
    known = {name for option in options for name in (*option.opts, *option.secondary_opts)}
    assert {word for word in words if word.startswith("-")} <= known


def called_by(command: Command) -> tuple[click.Command, list[str]]:
    """The command of hba, or that of a benchmark, and what is typed after its name."""
    program, *words = command.words
    if program == "python":
        path = words.pop(0)
        assert (ROOT / path).is_file()
        called = module(Path(path).stem).main
    else:
        called = main
    assert isinstance(called, click.Command)
    while isinstance(called, click.Group) and words and not words[0].startswith("-"):
        found = called.get_command(click.Context(called), words[0])
        assert found is not None, words[0]
        called = found
        words.pop(0)
    return called, words
