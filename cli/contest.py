"""hba contest: finds the best augmentation for a training of your own."""

import sys
from pathlib import Path
from typing import Any

import click

import hba
from hba.errors import SettingsError
from hba.own_training.ledger import LEDGER_NAME
from hba.own_training.run import PIPELINE_NAME, SYMMETRIES
from hba.report.page import REPORT_NAME
from hba.schedule.library import POLICY_NAME
from hba.utils.python_files import load_python_file
from hba.utils.settings import words

from .options import duration, given, number_option, path_option
from .terminal import operations_file_option, run_folder, say


@click.command()
@click.argument("training", metavar="FILE:FUNCTION")
@click.option(
    "--budget",
    "budget_seconds",
    type=duration,
    metavar="TIME",
    help="Time for everything, such as 20m or 4h. [default: with --resume, as before]",
)
@click.option(
    "--policies",
    metavar="NAMES",
    help=(
        "Policies to compare, separated by commas: recipes, shipped schedules or files."
        " [default: recipes with the symmetries]"
    ),
)
@click.option(
    "--symmetries",
    metavar="NAMES",
    help=(
        "Moves after which an image is still one of its kind, separated by commas:"
        f" {', '.join(SYMMETRIES)}; or the folder of a search, which has measured them."
        " [default: none]"
    ),
)
@click.option(
    "--mask-fill",
    type=float,
    help="Value of pixels of masks that operations uncover. [default: 0]",
)
@path_option("--out", help="Folder of the contest. [default: a new one in runs/]")
@click.option("--resume", is_flag=True, help="Resume the contest in --out.")
@number_option("--jobs", help="Trainings at a time. [default: 1]")
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Train on a running Ray cluster; auto finds that of this machine.",
)
@operations_file_option
def contest(
    training: str,
    out: Path | None,
    policies: str | None,
    symmetries: str | None,
    **options: Any,
) -> None:
    """Find the best augmentation for a training of your own within a time, and test it.

    \b
      hba contest my_training.py:train --budget 4h --symmetries "horizontal flip"

    FUNCTION of the Python FILE, which is executed, makes a training:
    train(transform, seed, effort) returns the score of each validation example, or a
    single one; higher is better. The transform augments an image with its boxes, masks
    and keypoints, and effort, in (0, 1], is the share of a whole training.

    Ctrl-C keeps the trainings that have ended, and --resume continues.
    """
    train = _function(training)
    name = Path(training.rpartition(":")[0]).stem
    with run_folder(out, name, resume=options["resume"]) as folder:
        say(f"Folder: {folder}")
        hba.contest(
            train,
            None if policies is None else words(policies),
            symmetries=() if symmetries is None else words(symmetries),
            out=folder,
            say=say,
            **given(options),
        )
    for file, text in (
        (POLICY_NAME, "Policy"),
        (PIPELINE_NAME, "Policy as Python without hba"),
        (LEDGER_NAME, "Trainings"),
        (REPORT_NAME, "Report"),
    ):
        say(f"{text}: {folder / file}")


def _function(training: str) -> Any:
    """The function of a file. SettingsError if there is none."""
    file, _, name = training.rpartition(":")
    if not file:
        raise SettingsError(
            f"give a file and its function, such as my_training.py:train, got"
            f" {training}"
        )
    # It may import the files beside it, as when Python runs it.
    sys.path.append(str(Path(file).resolve().parent))
    module = load_python_file(Path(file), "the file of a training")
    function = getattr(module, name, None)
    if not callable(function):
        raise SettingsError(
            f"{file} has no function {name}; define it, or name another"
        )
    return function
