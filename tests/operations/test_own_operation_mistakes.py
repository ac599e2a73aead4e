"""Mistakes with own operations that are easily made: each is refused in one line, and nothing is lost."""

import math
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from hba.cli import main
from own_operations import GAMMA, GAMMA_FILE, darken, gamma

import hba
from hba.data import LabelledImages, SearchData
from hba.errors import SettingsError
from hba.operations import OPERATIONS, Operation, register_operation
from hba.operations.registration import load_operations_file
from hba.policy.space import SearchSpace
from hba.schedule.pictures import draw_schedule

pytestmark = pytest.mark.usefixtures("registered")

SETTINGS: dict[str, Any] = {"model": "wrn-10-1", "epochs": 1, "batch_size": 8, "device": "cpu"}
DIGITS = ("search", "digits", "--train-size", "20", "--val-size", "20", "--epochs", "1", "--batch-size", "10")


def black_images() -> SearchData:
    images = LabelledImages(torch.zeros(8, 3, 8, 8, dtype=torch.uint8), torch.arange(8) % 2)
    return SearchData("black", ("a", "b"), images, images)


def refusal_of_file(folder: Path, text: str) -> str:
    (folder / "mine.py").write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as raised:
        load_operations_file(folder / "mine.py")
    assert len(str(raised.value).splitlines()) == 1
    return str(raised.value).removeprefix(str(folder))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x = 1\ny = (\n", 2),
        (GAMMA_FILE.replace("Gamma", "two words"), 8),
        (GAMMA_FILE.replace("Gamma", "Rotate"), 8),
        ("import json\n\njson.loads('{')\n", 3),
    ],
    ids=["no Python", "a name", "a taken name", "a library"],
)
def test_the_line_is_the_file_s_own(text: str, line: int, tmp_path: Path) -> None:
    assert refusal_of_file(tmp_path, text).endswith(f"(line {line})")


def test_a_reason_of_several_lines_is_shown_in_one(tmp_path: Path) -> None:
    message = refusal_of_file(tmp_path, "raise ValueError('first\\n  second')")
    assert message == "/mine.py failed: ValueError: first second (line 1)"


@pytest.mark.parametrize("end", ["sys.exit(0)", "sys.exit('no')", "raise SystemExit"])
def test_a_file_that_ends_the_program_is_refused(end: str, tmp_path: Path) -> None:
    assert refusal_of_file(tmp_path, f"import sys\n{end}\n").startswith("/mine.py failed: SystemExit")


@pytest.mark.parametrize(
    "operation",
    [
        Operation("Rotate", gamma, (0.0, 30.0), "degrees", 0.0, signed=True),
        Operation("Invert", darken),
        Operation("Gamma", gamma, (0.5, 2.0), "power", 1.0),
        Operation("Gamma", lambda images, exponent: images, (0.5, 2.0), "exponent", 1.0),
    ],
    ids=["Rotate", "Invert", "another unit", "another function"],
)
def test_a_search_with_another_operation_of_a_known_name_is_refused(operation: Operation, tmp_path: Path) -> None:
    """Its schedule would be read with the known operation, or not at all."""
    register_operation(GAMMA)
    with pytest.raises(SettingsError, match=operation.name):
        hba.search(black_images(), space=SearchSpace((operation,)), out=tmp_path / "run", **SETTINGS)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "operation",
    [Operation("Rotate", gamma, (0.0, 30.0), "degrees", 0.0, signed=True), Operation("Invert", darken)],
    ids=["Rotate", "Invert"],
)
def test_a_schedule_with_another_operation_of_the_15_s_name_is_not_written(
    operation: Operation, tmp_path: Path
) -> None:
    space = SearchSpace((operation,), copies=1, count_probabilities=(0.5, 0.5))
    schedule = hba.Schedule(space, np.zeros((1, space.n)))
    with pytest.raises(SettingsError) as raised:
        schedule.save(tmp_path / "a.json")
    assert str(raised.value) == f"{operation.name} is one of hba's own operations; give yours another name"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_other_ranges_and_interpolations_are_no_other_operation(interpolation: str) -> None:
    register_operation(GAMMA)
    rotate = OPERATIONS["Rotate"].with_range((10.0, 5.0)).with_interpolation(interpolation)
    space = SearchSpace((rotate, GAMMA.with_range((1.5, 0.7))))
    result = hba.search(black_images(), space=space, **SETTINGS)
    assert result.schedule is not None
    assert result.schedule.space == space


@pytest.mark.parametrize("identity", [math.nan, math.inf, -math.inf])
def test_an_identity_that_is_no_number_is_refused(identity: float) -> None:
    with pytest.raises(SettingsError, match="identity"):
        Operation("Mine", gamma, (0.5, 2.0), "exponent", identity)


def test_the_word_for_all_operations_is_no_name() -> None:
    with pytest.raises(SettingsError, match="all"):
        register_operation(Operation("all", darken))


def test_a_magnitude_without_unit_is_shown_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.figure import Figure

    labels: list[str] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: labels.extend(a.get_ylabel() for a in figure.axes))
    space = SearchSpace((Operation("Mine", gamma, (0.5, 2.0)),), copies=1, count_probabilities=(0.5, 0.5))
    draw_schedule(hba.Schedule(space, np.array([[0.5, 1.0]])), tmp_path / "a.png")
    assert not any(labels)


def test_a_magnitude_without_unit_is_printed_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(GAMMA_FILE.replace(', "exponent", 1.0', ""))
    result = CliRunner().invoke(
        main, [*DIGITS, "--epochs", "3", "--operations-file", "mine.py", "--operations", "Gamma"]
    )
    assert result.exit_code == 0
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("  Gamma ")]
    assert "None" not in line


def test_the_printed_next_command_works_with_an_own_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registered: dict[str, Operation]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my file.py").write_text(GAMMA_FILE)
    result = CliRunner().invoke(main, [*DIGITS, "--operations-file", "my file.py", "--operations", "Gamma"])
    assert result.exit_code == 0
    _, *arguments = shlex.split(result.stdout.splitlines()[-1])
    registered.clear()
    result = CliRunner().invoke(main, [*arguments, "--seeds", "1"])
    assert (result.exit_code, result.stderr) == (0, "")


def test_a_run_with_an_own_operation_that_is_resumed_without_it_says_what_to_do(
    tmp_path: Path, registered: dict[str, Operation]
) -> None:
    register_operation(GAMMA)
    hba.search(black_images(), operations="Gamma", out=tmp_path, **SETTINGS)
    registered.clear()
    with pytest.raises(hba.HbaError, match="--operations-file"):
        hba.search(black_images(), out=tmp_path, resume=True)
