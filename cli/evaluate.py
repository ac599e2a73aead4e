"""hba evaluate: does the schedule help?"""

import contextlib
import inspect
import shlex
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

import hba
from hba.config.evaluation import INHERITED, EvaluationConfig
from hba.config.presets import EVALUATION_PRESETS
from hba.data.config import display_name
from hba.data.labels import error_in_words
from hba.policy_evaluation import BASELINES, RESULTS_NAME, TensorBoardLogger
from hba.policy_evaluation.baselines import AGAINST
from hba.policy_evaluation.callbacks import (
    EvaluationPlan,
    EvaluationProgress,
    TrainingsBar,
)
from hba.results.answer import answer
from hba.results.evaluation import MEASURES, Measure
from hba.results.tables import measured_table
from hba.utils.progress import FOLDER_NAME, CallbackList
from hba.utils.text import counted

from .help import SectionedCommand
from .options import (
    DATA,
    complete,
    given,
    number_option,
    path_option,
    schedule_argument,
    settings_options,
)
from .terminal import (
    classes_line,
    console,
    json_option,
    operations_file_option,
    print_table,
    run_folder,
    say,
    trainings_kept,
)

HELP_WIDTH = 118


@click.command(
    cls=SectionedCommand,
    params=settings_options(
        EvaluationConfig,
        without=("data", "val_size"),
        default_texts=dict.fromkeys(INHERITED, "as in the search"),
    ),
)
@schedule_argument
@click.argument("data", required=False, shell_complete=DATA)
@click.option(
    "--against",
    help=(
        f"What to compare with, comma-separated: {', '.join(BASELINES)}; schedule"
        f" files; shipped schedules. [default: {','.join(AGAINST)}, without SCHEDULE"
        " itself]"
    ),
)
@click.option(
    "--preset",
    metavar="NAME",
    shell_complete=complete(EVALUATION_PRESETS),
    help="Named settings, see `hba presets`.",
)
@path_option("--out", help="Folder of the results. [default: a new one in runs/]")
@click.option(
    "--resume",
    is_flag=True,
    help="Resume the evaluation in --out; give all other options as before.",
)
@number_option(
    "--jobs", help="Trainings at a time. [default: on a CPU one per thread, else 1]"
)
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Train on a running Ray cluster; auto finds that of this machine.",
)
@click.option(
    "--allow-seen",
    is_flag=True,
    help="Allow test images that a search of these schedules has seen.",
)
@click.option(
    "--keep-network",
    is_flag=True,
    help="Keep the network of the first training, for `hba predict`.",
)
@path_option(
    "--config",
    help=(
        "Start from the settings of an earlier evaluation: its folder or results.json."
    ),
)
@click.option(
    "--tensorboard",
    is_flag=True,
    help="Write TensorBoard events into tensorboard/ in --out.",
)
@json_option
@operations_file_option
def evaluate(
    schedule: str, data: str | None, out: Path | None, as_json: bool, **options: Any
) -> None:
    """Train with SCHEDULE and without it, and compare the test errors after the last
    epoch.

    SCHEDULE is a file, a run folder, or the name of a recipe or of a shipped schedule.
    DATA is as for `hba search`. Settings that you do not give are taken from the search
    that made the schedule. Give DATA for a recipe, which has none, and for a schedule
    that somebody else made: otherwise, the folder named in it is read. Training uses
    all images except the test split, which no network sees before the end of its last
    epoch.

    You can compare SCHEDULE with other schedules and with these baselines, whose names
    take precedence over files:

    BASELINES

    As in the search, each image draws its policy around the values of a schedule, by
    the spread of the schedule. This applies to all baselines made from SCHEDULE too.
    --spread overrides it.

    With --json, only the content of results.json goes to standard output; all else goes
    to standard error.

    Ctrl-C or SIGTERM keeps the finished trainings and the state of those in progress,
    which is saved every minute. To do the rest, repeat the command with --out and
    --resume; you can add --seeds, and names at the end of --against.
    """
    # None is passed on too, because hba.evaluate has another default.
    jobs = options.pop("jobs")
    tensorboard = options.pop("tensorboard")
    redirected = (
        contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext()
    )
    with (
        redirected,
        run_folder(out, "evaluate", resume=options["resume"]) as folder,
        PrintsEvaluation() as terminal,
        trainings_kept(folder, lambda: terminal.n_done),
    ):
        callback: Any = terminal
        if tensorboard:
            callback = CallbackList(terminal, TensorBoardLogger(folder / FOLDER_NAME))
        result = hba.evaluate(
            schedule,
            data,
            out=folder,
            callback=callback,
            jobs=jobs,
            **given(options),
        )
    _report(result, folder, as_json=as_json)


evaluate.help = inspect.cleandoc(evaluate.help or "").replace(
    "BASELINES",
    # A paragraph that click does not wrap.
    "\b\n"
    + "\n".join(
        textwrap.fill(
            baseline.text,
            HELP_WIDTH,
            initial_indent=f"  {name}".ljust(23),
            subsequent_indent=" " * 23,
        )
        for name, baseline in BASELINES.items()
    ),
)


class PrintsTrainings(TrainingsBar):
    """Shows progress: a bar in a terminal, one line per training elsewhere."""

    def ended(self, text: str) -> None:
        super().ended(text)
        if not self.visible:
            say(text)


class PrintsEvaluation(PrintsTrainings, EvaluationProgress):
    """Also prints the plan of an evaluation."""

    def planned(self, plan: EvaluationPlan) -> None:
        for line in plan_lines(plan):
            say(line)
        self.begin(
            plan.n_trainings, plan.steps_per_training, "images", plan.config.batch_size
        )


def plan_lines(plan: EvaluationPlan) -> Iterator[str]:
    """Describe an evaluation before it starts: the images, the network, the trainings,
    and notes.
    """
    config = plan.config
    data = plan.data
    test = "" if data.n_test is None else f" and {data.n_test:,} test"
    classes = classes_line(data.class_names, len(data.left_out), plan.folder)
    yield f"{len(data.train):,} training{test} images of {classes}"
    yield (
        f"{plan.result.model} on {plan.device}, {config.side}x{config.side} pixels,"
        f" {counted(config.epochs, 'epoch')} of"
        f" {counted(plan.steps_per_training // config.epochs, 'step')}"
    )
    at_a_time = f", {plan.jobs} at a time" if plan.jobs > 1 else ""
    where = "" if plan.folder is None else f"; results in {plan.folder / RESULTS_NAME}"
    seeds = counted(config.seeds, "seed") + (
        f" from {config.first_seed} on" if config.first_seed else ""
    )
    names = [row.name for row in plan.result.rows]
    n_kept = sum(len(row.seeds) for row in plan.result.rows)
    kept = f" and {n_kept} that are kept" if n_kept else ""
    yield (
        f"trainings: {plan.n_trainings}{kept} ({', '.join(names)};"
        f" {seeds}){at_a_time}{where}"
    )
    if config.spread is not None:
        yield f"spread of all schedules: {config.spread:g} logits"
    yield from plan.notes


def _command(folder: Path) -> str:
    """The command that was typed, with the folder of its results, and without what a
    resumed evaluation changes.
    """
    words = iter(sys.argv[1:])
    kept = []
    for word in words:
        name, has_value, _ = word.partition("=")
        if name in ("--seeds", "--out") and not has_value:
            next(words, None)
        elif name not in ("--seeds", "--out", "--resume", "--json"):
            kept.append(word)
    return shlex.join(["hba", *kept, "--out", str(folder)])


def _report(result: hba.EvaluationResult, folder: Path, *, as_json: bool) -> None:
    """Print the results, and where they are."""
    if as_json:
        click.echo((folder / RESULTS_NAME).read_text("utf-8"), nl=False)
        return
    printer = console()
    config = result.config
    final_answer = answer(result, command=_command(folder), folder=folder)
    if final_answer is not None:
        printer.print(final_answer.sentence)
    printer.print(
        f"Test error{error_in_words(result.error)} after the last of {config.epochs}"
        f" epochs: {result.model} on {display_name(config.data)}, {result.train_images}"
        f" training and {result.test_images} test images"
    )
    print_errors(result, MEASURES)
    if final_answer is not None and final_answer.next_step is not None:
        printer.print(f"To be surer: {final_answer.next_step}")
    printer.print(
        f"Results: {folder / RESULTS_NAME}"
        + (f" ({result.steps})" if result.steps else "")
    )
    if result.report is not None:
        printer.print(f"Report: {result.report}")


def print_errors(
    result: hba.EvaluationResult,
    measures: Iterable[Measure] = ("test_error",),
) -> None:
    """Print a table of each known measure."""
    for measure in measures:
        if (table := measured_table(result, measure)) is not None:
            print_table(*table)
