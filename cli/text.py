"""hba search-text and hba evaluate-text: schedules of regularization for language
models.
"""

import math
from pathlib import Path
from typing import Any

import click

import hba
import hba.text
from hba.errors import SettingsError
from hba.policy_search.callbacks import Plan
from hba.text.config import (
    TEXT_ALGORITHMS,
    TextEvaluationConfig,
    TextSearchConfig,
)
from hba.text.evaluation import BASELINES
from hba.text.lstm import in_words
from hba.text.problem import TextProgress
from hba.utils.text import counted

from .evaluate import PrintsTrainings
from .help import SectionedCommand
from .main import INTERRUPTED
from .options import (
    algorithm_options,
    given,
    path_option,
    schedule_argument,
    settings_options,
)
from .search import SearchTerminal, print_end
from .terminal import console, run_folder, say, trainings_kept


@click.command(
    name="search-text",
    cls=SectionedCommand,
    params=[
        *settings_options(TextSearchConfig, without=("data", "algorithm")),
        *algorithm_options(
            TEXT_ALGORITHMS,
            "Search algorithm: stn or delta-stn.",
            without=TextSearchConfig.idle,
        ),
    ],
)
@click.argument("data", required=False, type=click.Path(path_type=Path))
@path_option("--out", help="Folder of the run. [default: a new one in runs/]")
@click.option(
    "--resume", is_flag=True, help="Resume the run in --out with its settings."
)
def search_text(
    data: Path | None, out: Path | None, resume: bool, **options: Any
) -> None:
    """Find a regularization schedule for a language model on DATA.

    DATA is a folder with train.txt, valid.txt and test.txt, with words separated by
    spaces. test.txt is not opened.
    """
    if data is None and not resume:
        raise SettingsError(
            "DATA is missing: name a folder with train.txt, valid.txt and test.txt"
        )
    with run_folder(
        out, "" if data is None else data.resolve().name, resume=resume
    ) as folder:
        with _Terminal(_plan_lines) as terminal:
            result = hba.text.search(
                data, out=folder, resume=resume, callback=terminal, **given(options)
            )
        _report(result, folder)
    if not result.finished:
        raise SystemExit(INTERRUPTED)


class _Terminal(SearchTerminal, TextProgress):
    """Shows progress, with perplexities."""


def _plan_lines(plan: Plan) -> list[str]:
    done = f", {plan.epochs_done} of them done" if plan.epochs_done else ""
    starts = ", ".join(
        f"{name} {value:.3g}" for name, value in plan.regularizers.items()
    )
    return [
        *plan.notes,
        f"Model: LSTM of {plan.n_parameters:,} parameters on {plan.device}",
        (
            f"Search: {counted(plan.epochs, 'epoch')}{done} of"
            f" {counted(plan.steps_per_epoch, 'step')},"
            f" {counted(plan.policy_steps, 'step')} of lambda"
        ),
        f"Tuned: {starts}",
    ]


def _report(result: hba.SearchResult, folder: Path) -> None:
    """Print the result, where it is, and what to do next."""
    schedule = result.schedule
    if schedule is not None:
        for regularizer in schedule.space.regularizers:
            first, last = (
                schedule.regularization(epoch)[regularizer.name]
                for epoch in (0, schedule.epochs - 1)
            )
            say(
                f"  {regularizer.name:<20} {regularizer.initial:.3g} initially,"
                f" {first:.3g} after epoch 1, {last:.3g} at the end"
            )
        perplexity = in_words(result.metrics[-1]["val_perplexity"] or math.nan)
        say(f"Perplexity of the search network on the validation text: {perplexity}")
    print_end(
        result,
        folder,
        "search-text",
        ["hba", "evaluate-text", str(folder / "policy.json")],
    )


@click.command(
    name="evaluate-text",
    cls=SectionedCommand,
    params=settings_options(
        TextEvaluationConfig,
        without=("data",),
        default_texts=dict.fromkeys(
            TextEvaluationConfig.model_fields.keys() - {"seeds", "device"},
            "as in the search",
        ),
    ),
)
@schedule_argument
@click.argument("data", required=False, type=click.Path(path_type=Path))
@path_option("--out", help="Folder for results.json. [default: a new one in runs/]")
@click.option(
    "--resume",
    is_flag=True,
    help="Resume the evaluation in --out; you can add seeds and baselines.",
)
@click.option(
    "--against",
    metavar="NAMES",
    default="none,static,final",
    show_default=True,
    help=(
        "Baselines with fixed regularization, separated by commas:"
        f" {', '.join(BASELINES)}."
    ),
)
def evaluate_text(
    schedule: str,
    data: Path | None,
    out: Path | None,
    resume: bool,
    against: str,
    **options: Any,
) -> None:
    """Train language models with SCHEDULE and with fixed regularization, and compare
    their test perplexities.

    DATA is the folder of text, by default the one of the search.

    Ctrl-C or SIGTERM keeps the finished trainings. To do the others, repeat the command
    with --out and --resume.
    """
    with (
        run_folder(out, "evaluate", resume=resume) as folder,
        PrintsTrainings() as terminal,
        trainings_kept(folder, lambda: terminal.n_done),
    ):
        evaluation = hba.text.evaluate(
            schedule,
            data,
            against=against,
            out=folder,
            resume=resume,
            callback=terminal,
            **given(options),
        )
    for line in evaluation.lines():
        console().print(line)
    console().print(f"Results: {folder / 'results.json'}")
