"""hba evaluate: does the schedule help?"""

import shlex
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

import hba
from hba.config import EvaluationConfig
from hba.errors import DivergedError, HbaError, SettingsError
from hba.evaluation import RESULTS_NAME, RIVALS
from hba.evaluation.paired import PairedDifference
from hba.evaluation.progress import EvaluationProgress, training_text
from hba.inheritance import INHERITED

from .options import given, operations_file_option, settings_options
from .sections import SectionedCommand
from .terminal import console, data_line, percent, run_folder, say


@click.command(cls=SectionedCommand)
@click.argument("schedule")
@click.argument("data", required=False)
@click.option(
    "--against",
    default="none",
    show_default=True,
    help=f"Comma-separated: {', '.join(RIVALS)}; schedule files; names of shipped schedules.",
)
@click.option(
    "--preset",
    metavar="NAME",
    help="Start from these settings, as `hba presets` lists them. [default: by dataset, else as in the search]",
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder for results.json. [default: a new one in runs/]")
@click.option("--resume", is_flag=True, help="Go on with the evaluation in --out; all else as it was begun.")
@click.option(
    "--jobs",
    type=int,
    metavar="INT",
    help="Trainings at a time, each in a process of its own with its share of the threads. [default: on a CPU one for "
    "each thread of PyTorch, else 1]",
)
@operations_file_option
@settings_options(
    EvaluationConfig, without=("data", "val_size"), default_texts=dict.fromkeys(INHERITED, "as in the search")
)
def evaluate(
    schedule: str,
    data: str | None,
    against: str,
    preset: str | None,
    out: Path | None,
    resume: bool,
    jobs: int | None,
    **options: Any,
) -> None:
    """Train with SCHEDULE and without, and compare the test errors after the last epoch.

    SCHEDULE is a file, a run folder, or the name of a shipped schedule. DATA is as for `hba search`; what is not given
    is as in the search that made the schedule. Training uses all images but the test split; networks never see the
    test split before their last epoch is over.

    SCHEDULE can be compared with other schedules, and with what these names stand for, also where a file is called so:

    \b
      none      the baseline augmentation alone
      cutout    the baseline augmentation and Cutout, of half the image's side or as the dataset has it
      random    where the search of SCHEDULE began, throughout: by default `middle`, with --paper almost nothing
      middle    the operations of SCHEDULE, all probabilities 0.5, all magnitudes in the middle of their range, where
                Brightness, Color, Contrast and Sharpness leave an image as it is
      shuffled  SCHEDULE with its curves handed to other operations, in ten ways that take turns over the seeds, and its
                magnitudes made equally strong: on average they move images by as many grey levels as SCHEDULE does
      static    the mean of SCHEDULE over its epochs, throughout
      final     the last epoch of SCHEDULE, throughout
      randaugment, trivialaugment, autoaugment
                torchvision's, with their defaults; trivialaugment shifts by up to 32 pixels whatever the images' size

    Ctrl-C keeps the trainings that have ended; the same command with --out and --resume does the others. It may then
    have more --seeds, and more names at the end of --against.
    """
    if resume and out is None:
        raise SettingsError("--resume needs --out, the folder of the evaluation to go on with")
    others = [name.strip() for name in against.split(",") if name.strip()]
    with run_folder(out, "evaluate") as folder, _Terminal() as observer:
        try:
            result = hba.evaluate(
                schedule,
                data,
                against=others,
                preset=preset,
                out=folder,
                resume=resume,
                jobs=jobs,
                observer=observer,
                **given(options),
            )
        except (KeyboardInterrupt, HbaError) as error:
            if observer.n_done:
                say(_kept_line(observer.n_done, folder, isinstance(error, DivergedError)), err=True)
            raise
    _print_table(result)
    if result.verdict:
        console().print(result.verdict)
    console().print(f"Results: {folder / RESULTS_NAME}")


def _kept_line(n_done: int, folder: Path, has_diverged: bool) -> str:
    kept = f"trainings that ended: {n_done}, in {folder / RESULTS_NAME}"
    if has_diverged:
        return f"{kept}; the one that did not end would not when resumed either: start anew with another --out"
    return f"{kept}; the same command with --out {shlex.quote(str(folder))} --resume does the others"


class _Terminal(EvaluationProgress):
    """Shows progress: a bar in a terminal, one line per training elsewhere."""

    def data_ready(self, train_images: int, test_images: int | None, n_classes: int, skipped_images: int) -> None:
        counts = {"training": train_images} | ({} if test_images is None else {"test": test_images})
        say(data_line(counts, n_classes, skipped_images))

    def noted(self, sentence: str) -> None:
        say(sentence)

    def resumed(self, n_kept: int) -> None:
        say(f"trainings that are kept: {n_kept}")

    def training_done(self, name: str, seed: int, test_error_percent: float) -> None:
        super().training_done(name, seed, test_error_percent)
        if not self.bar.visible:
            say(training_text(name, seed, test_error_percent))


def _print_table(result: hba.EvaluationResult) -> None:
    config = result.config
    table = Table(
        title=Text(
            f"Test error after the last of {config.epochs} epochs: {config.model} on {Path(config.data).name}, "
            f"{result.train_images} training and {result.test_images} test images"
        )
    )
    schedule, differences = result.rows[0].name, result.differences
    table.add_column("trained with", overflow="fold")
    for heading in ("mean", "std", "seeds", "each seed"):
        table.add_column(heading, justify="right")
    if differences:
        table.add_column(Text(f"{schedule} minus this, 95 % interval"), justify="right")
    for row in result.rows:
        each = "  ".join(f"{error:.2f}" for error in row.test_error_percent)
        cells = [row.name, percent(row.mean), percent(row.std), str(len(row.seeds)), each]
        last = [_points(differences.get(row.name))] if differences else []
        table.add_row(*map(Text, (*cells, *last)))
    console().print(table)


def _points(difference: PairedDifference | None) -> str:
    """`-0.52 (-0.93 to -0.11)`, in percentage points."""
    if difference is None:
        return ""
    interval = "" if difference.interval is None else " ({:+.2f} to {:+.2f})".format(*difference.interval)
    return f"{difference.mean:+.2f}{interval}"
