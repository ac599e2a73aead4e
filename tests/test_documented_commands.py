"""The commands of the documentation have their options; slow tests run those of hba on
tiny files.
"""

import contextlib
import re
import shutil
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from documents import TINY, Command, commands_in_blocks, make_images, make_runs, text_of
from hba.cli import main

import hba

PAGES = (
    "evaluation",
    "extending",
    "regularization",
    "searching",
    "settings",
    "tutorial",
)
DOCUMENTS = ("README.md", *(f"{page}.md" for page in PAGES))
"""Whose commands are run, with those that need a network or a cluster left out."""
NOT_RUN = ("--download", "--cluster")
SMALLER: Mapping[str, str] = {
    "--train-size": "16",
    "--val-size": "8",
    "--seeds": "2",
    "--epochs": "3",
    "--budget": "20s",
}
"""Of options that a command has, in the place of their values: click takes the last
one.
"""
SEARCH: Mapping[str, str] = {
    f"--{name.replace('_', '-')}": str(value) for name, value in TINY.items()
}
EVALUATION = {
    **{name: SEARCH[name] for name in ("--epochs", "--batch-size", "--device")},
    "--seeds": "2",
}
TRAINING = {name: value for name, value in SEARCH.items() if name != "--image-size"}
DEFAULTS = {
    "auto": {**SEARCH, "--seeds": "2"},
    "search": SEARCH,
    "evaluate": EVALUATION,
    "train": TRAINING,
}


@pytest.mark.usefixtures("benchmarks_can_be_imported")
def test_every_command_has_its_options() -> None:
    wrong = []
    for command in commands_in_blocks():
        if command.words[0] != "hba" and not command.typed.startswith(
            "python benchmarks/"
        ):
            continue
        called, words = _called_by(command)
        options = called.get_params(click.Context(called, **main.context_settings))
        names = {
            name
            for option in options
            for name in (*option.opts, *option.secondary_opts)
        }
        wrong += [
            (str(command), word)
            for word in words
            if word.startswith("-") and word not in names
        ]
    assert wrong == []


def _called_by(command: Command) -> tuple[click.Command, list[str]]:
    """The command of hba or of a benchmark, and the words after its name."""
    _, *words = command.words
    called = (
        import_module(Path(words.pop(0)).stem).main
        if command.words[0] == "python"
        else main
    )
    assert isinstance(called, click.Command)
    while isinstance(called, click.Group) and words and not words[0].startswith("-"):
        subcommand = called.get_command(click.Context(called), words.pop(0))
        assert subcommand is not None, str(command)
        called = subcommand
    return called, words


@pytest.fixture(scope="module")
def documented(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The images, runs and files that the commands name."""
    folder = tmp_path_factory.mktemp("documented")
    make_images(folder / "animals")
    for copy in ("DIR", "NEW_DIR", "cells"):
        shutil.copytree(folder / "animals", folder / copy)
    with contextlib.chdir(folder):
        make_runs(Path(), ("animals-1", "animals-2", "DIR-1"))
        hba.search(
            "animals",
            out="runs/tuned",
            tune="augmentation,dropout,weight-decay",
            **TINY,
        )
        hba.train("overhead", "animals", out="runs/animals-network", **TINY)
        hba.repeated_search("DIR", seeds=2, out="runs/DIR-seeds", **TINY)
        shutil.copytree("runs/animals-1", "runs/cells-1")
        shutil.copy("runs/animals-1/policy.json", "SCHEDULE")
        (example,) = re.findall(
            r"^```python\n(# mine\.py\n.*?)^```",
            text_of("docs/extending.md"),
            re.DOTALL | re.M,
        )
        Path("mine.py").write_text(example, encoding="utf-8")
    return folder


@pytest.mark.slow
@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_run(
    document: str, documented: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = []
    for number, command in enumerate(commands_in_blocks()):
        program, *words = command.words
        if command.document != document or program != "hba" or {*NOT_RUN} & {*words}:
            continue
        place = tmp_path / str(number)
        shutil.copytree(documented, place)
        monkeypatch.chdir(place)
        if words[0] == "search" and "--resume" not in words:
            shutil.rmtree("runs/DIR-seeds")
        if words[0] == "train":
            shutil.rmtree("runs/animals-network")
        result = CliRunner().invoke(main, _shortened(words))
        if result.exit_code != 0 or (
            "--out" in words and not Path(words[words.index("--out") + 1]).exists()
        ):
            failed.append((command.typed, result.output + repr(result.exception)))
    assert failed == []


def _shortened(words: list[str]) -> list[str]:
    """The same command, as short as can be."""
    options = {option: value for option, value in SMALLER.items() if option in words}
    if not {"--resume", "--config"} & {*words}:
        options |= DEFAULTS.get(words[0], {})
    if "--budget" in words and words[0] != "auto":
        del options["--epochs"]
    return [*words, *(word for pair in options.items() for word in pair)]
