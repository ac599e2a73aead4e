"""Commands run in this process, and small images and schedules for them."""

from pathlib import Path
from typing import Any

import click
import numpy as np
from click.testing import CliRunner, Result
from hba.cli import main
from PIL import Image

from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule

SMALL = (
    "--epochs",
    "2",
    "--batch-size",
    "8",
    "--model",
    "wrn-10-1",
    "--image-size",
    "8",
    "--device",
    "cpu",
)


def command_of(name: str) -> click.Command:
    """The command of that name, which is imported now."""
    command = main.get_command(click.Context(main, **main.context_settings), name)
    assert command is not None, name
    return command


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def refusal_of(*arguments: str) -> str:
    """The one line with which the command ends, without its start."""
    result = run(*arguments)
    assert isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("hba: error: ")
    return line.removeprefix("hba: error: ")


def make_images(
    folder: Path,
    n_images: int = 12,
    classes: tuple[str, ...] = ("cats", "dogs"),
    seed: int = 0,
) -> Path:
    """A folder of images, 16x12 and noisy, each class of a colour of its own."""
    random = np.random.default_rng(seed)
    for label, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for number in range(n_images):
            levels = random.integers(0, 100, (12, 16, 3), dtype=np.uint8)
            levels[..., label % 3] += 150
            Image.fromarray(levels).save(folder / name / f"{number}.png")
    return folder


def small_schedule(**provenance: Any) -> Schedule:
    """Two epochs of Rotate and Invert."""
    space = SearchSpace((OPERATIONS["Rotate"], OPERATIONS["Invert"]), copies=1)
    return Schedule(
        space, np.array([[0.25, 3.0, 0.5], [0.75, 24.0, 0.125]]), provenance=provenance
    )


def said(*arguments: str) -> list[str]:
    """The lines of a command that succeeds and prints nothing to standard error."""
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (0, ""), (
        repr(result.exception) + result.output
    )
    return result.stdout.splitlines()


def rows_in(lines: list[str]) -> list[list[str]]:
    """The cells of the tables that were printed."""
    return [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in lines
        if line.startswith("│")
    ]
