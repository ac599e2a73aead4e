"""hba evaluate: does the schedule help?"""

import contextlib
import inspect
import sys
import textwrap
from pathlib import Path
from typing import Any

import click

import hba
from hba.config.evaluation import EvaluationConfig
from hba.config.inheritance import INHERITED
from hba.distributed.collectives import joined
from hba.distributed.process_info import is_first, launched
from hba.errors import DivergedError, HbaError, SettingsError
from hba.policy_evaluation import RESULTS_NAME, RIVALS, TensorBoardLogger
from hba.policy_evaluation.plan import EvaluationPlan
from hba.policy_evaluation.progress import EvaluationProgress, training_text
from hba.training.checkpoint import TRAININGS_NAME
from hba.utils.interrupts import terminated_as_interrupted
from hba.utils.progress import CallbackList
from hba.utils.tensorboard import FOLDER_NAME
from hba.utils.text import counted

from .completion import DATA, EVALUATION_PRESET, SCHEDULE
from .evaluation_text import plan_lines, print_balanced, print_settings, print_table
from .operations_files import operations_file_option
from .options import given, settings_options
from .sections import SectionedCommand
from .terminal import console, json_option, kept_line, run_folder, say
from .wording import minutes_words

HELP_WIDTH = 118


@click.command(cls=SectionedCommand)
@click.argument("schedule", shell_complete=SCHEDULE)
@click.argument("data", required=False, shell_complete=DATA)
@click.option(
    "--against",
    default="none",
    show_default=True,
    help=f"Comma-separated: {', '.join(RIVALS)}; schedule files; names of shipped schedules.",
)
@click.option(
    "--preset",
    metavar="NAME",
    shell_complete=EVALUATION_PRESET,
    help="Start from these settings, as `hba presets` lists them. [default: by dataset, else as in the search]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder for results.json and report.html. [default: a new one in runs/]",
)
@click.option("--resume", is_flag=True, help="Resume the evaluation in --out; give all else as it was begun.")
@click.option(
    "--jobs",
    type=int,
    metavar="INT",
    help="Trainings at a time, each in its own process with its share of the threads. [default: on a CPU one for "
    "each thread of PyTorch, else 1]",
)
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Train on the machines of a running Ray cluster, one training for each GPU, or else for each CPU; auto is the "
    "cluster that this machine is in. What a lost machine was training is trained again.",
)
@click.option(
    "--gpus-per-training",
    type=int,
    default=1,
    show_default=True,
    metavar="INT",
    help="With --cluster: GPUs, or CPUs where no machine has a GPU, that share each training.",
)
@click.option(
    "--allow-seen",
    is_flag=True,
    help="Test also on images that a search of these schedules has seen; otherwise that is refused.",
)
@click.option(
    "--explain", is_flag=True, help="Show where each setting comes from (default, search, preset, given), and end."
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="Begin with the settings of an earlier evaluation, its folder or results.json; what is given here replaces "
    "them.",
)
@click.option(
    "--tensorboard",
    is_flag=True,
    help="Write TensorBoard events into the folder tensorboard/ in --out: loss and error of each training, by epoch.",
)
@json_option
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
    cluster: str | None,
    gpus_per_training: int,
    allow_seen: bool,
    explain: bool,
    config: Path | None,
    tensorboard: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Train with SCHEDULE and without, and compare the test errors after the last epoch.

    SCHEDULE is a file, a run folder, or the name of a shipped schedule. DATA is as for `hba search`; what is not given
    is as in the search that made the schedule, so give DATA for a schedule that somebody else made: otherwise the
    folder that it names is read. Training uses all images but the test split; networks never see the
    test split before their last epoch is over.

    SCHEDULE can be compared with other schedules, and with what these names stand for, also where a file is called so:

    RIVALS

    Images differ from a schedule's rows by its spread, and so do they in the rows that are made of SCHEDULE; --spread
    replaces it in all of them.

    With --json, standard output gets what results.json holds, and all else goes to standard error.

    Ctrl-C, or SIGTERM, keeps the trainings that have ended; the same command with --out and --resume does the others.
    One that was stopped goes on from where it was last saved, at most a minute before.
    It may then have more --seeds, and more names at the end of --against.
    """
    if explain and launched().rank:
        return
    if explain:
        explained = hba.policy_evaluation.explain(schedule, data, preset=preset, config=config, **given(options))
        print_settings(explained, console())
        return
    if resume and out is None:
        raise SettingsError("--resume needs --out, the folder of the evaluation to resume")
    others = [name.strip() for name in against.split(",") if name.strip()]
    spoken = contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext()
    with joined():
        with spoken, run_folder(out, "evaluate") as folder, _Terminal() as callback, terminated_as_interrupted():
            told: Any = callback
            if tensorboard and is_first():
                told = CallbackList(callback, TensorBoardLogger(folder / FOLDER_NAME))
            try:
                result = hba.evaluate(
                    schedule,
                    data,
                    against=others,
                    preset=preset,
                    out=folder,
                    resume=resume,
                    jobs=jobs,
                    cluster=cluster,
                    gpus_per_training=gpus_per_training,
                    allow_seen=allow_seen,
                    callback=told,
                    **given({**options, "config": config}),
                )
            except (KeyboardInterrupt, HbaError) as error:
                is_on_its_way = isinstance(error, KeyboardInterrupt) and (folder / TRAININGS_NAME).is_dir()
                if callback.n_done or is_on_its_way:
                    say(kept_line(callback.n_done, folder, has_diverged=isinstance(error, DivergedError)), err=True)
                raise
        if is_first():
            _report(result, folder, as_json=as_json)


def _report(result: hba.EvaluationResult, folder: Path, *, as_json: bool) -> None:
    """What was found, and where it is."""
    if as_json:
        click.echo((folder / RESULTS_NAME).read_text("utf-8"), nl=False)
        return
    print_table(result, console())
    print_balanced(result, console())
    for text in [str(result.verdict)] if result.verdict else result.warnings:
        console().print(text)
    console().print(f"Results: {folder / RESULTS_NAME}")
    if result.report is not None:
        console().print(f"Report: {result.report}")


def _rivals_text() -> str:
    """A paragraph that click leaves as it is: what each reserved name stands for."""
    width = max(map(len, RIVALS)) + 4
    lines = [
        textwrap.fill(rival.text, HELP_WIDTH, initial_indent=f"  {name}".ljust(width), subsequent_indent=" " * width)
        for name, rival in RIVALS.items()
    ]
    return "\b\n" + "\n".join(lines)


evaluate.help = inspect.cleandoc(evaluate.help or "").replace("RIVALS", _rivals_text())


class _Terminal(EvaluationProgress):
    """Shows progress: a bar in a terminal, one line per training elsewhere."""

    def planned(self, plan: EvaluationPlan) -> None:
        for line in plan_lines(plan):
            say(line)
        self.begin(plan)

    def estimated(self, seconds: float) -> None:
        say(f"{minutes_words(seconds / 60)} for {counted(self.n_trainings, 'training')}.")

    def training_done(self, name: str, seed: int, test_error_percent: float) -> None:
        super().training_done(name, seed, test_error_percent)
        if not self.bar.visible:
            say(training_text(name, seed, test_error_percent))
