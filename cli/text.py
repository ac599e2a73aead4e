"""hba search-text and hba evaluate-text: schedules of regularization for language models."""

import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

import hba
import hba.text
from hba.errors import DivergedError, HbaError, SettingsError
from hba.text.config import OF_IMAGES, TEXT_ALGORITHMS, TextEvaluationConfig, TextSearchConfig
from hba.text.evaluation import BASELINES, Loss, TextEvaluationProgress
from hba.text.lstm import in_words, perplexity
from hba.text.task import TextPlan, TextProgress
from hba.utils.text import counted

from .completion import SCHEDULE
from .help import SectionedCommand
from .main import INTERRUPTED
from .options import algorithm_options, given, path_option, settings_options
from .terminal import SearchTerminal, console, kept_line, run_folder, say, terminated_as_interrupted


@click.command(name="search-text", cls=SectionedCommand)
@click.argument("data", required=False, type=click.Path(path_type=Path))
@path_option("--out", help="Folder of the run. [default: a new one in runs/]")
@click.option("--resume", is_flag=True, help="Resume the run in --out with its settings; --epochs may be more.")
@settings_options(TextSearchConfig, without=("data", "algorithm"), default_texts={})
@algorithm_options(
    TEXT_ALGORITHMS, "How the search moves lambda: stn, or delta-stn.", default_texts={}, without=OF_IMAGES
)
def search_text(data: Path | None, out: Path | None, resume: bool, **options: Any) -> None:
    """Search a regularization schedule for a language model on DATA.

    DATA is a folder with train.txt, valid.txt and test.txt, words separated by blanks. The test text stays unopened.
    """
    if resume and out is None:
        raise SettingsError("--resume needs --out, the folder of the run to resume")
    if data is None and not resume:
        raise SettingsError("DATA must be named: a folder with train.txt, valid.txt and test.txt")
    with run_folder(out, "" if data is None else data.resolve().name) as folder:
        with _SearchTerminal() as terminal:
            try:
                result = hba.text.search(data, out=folder, resume=resume, callback=terminal, **given(options))
            finally:
                terminal.restore_signals()
        _report(result, folder)
    if not result.finished:
        raise SystemExit(INTERRUPTED)


class _SearchTerminal(SearchTerminal, TextProgress):
    """Shows progress: a bar in a terminal, a few lines elsewhere."""

    def planned(self, plan: TextPlan) -> None:
        for line in plan_lines(plan):
            say(line)

    def started(self, step: int, total_steps: int, words_per_step: int, n_epochs: int) -> None:
        super().started(step, total_steps, words_per_step, n_epochs)
        self.catch_signals()

    def epoch_done(self, metrics: Mapping[str, float | None]) -> None:
        super().epoch_done(metrics)
        self.say_epoch(int(metrics["epoch"] or 0))


def plan_lines(plan: TextPlan) -> list[str]:
    """What a search will do: the text, the model, the number of steps, what is tuned."""
    texts = ", ".join(f"{count:,} words in {name}.txt" for name, count in plan.words.items())
    unknown = ", ".join(f"{share:.1f} % of {name}.txt" for name, share in plan.unknown_percent.items())
    done = f", {plan.epochs_done} of them done" if plan.epochs_done else ""
    starts = ", ".join(f"{name} {value:.3g}" for name, value in plan.regularizers.items())
    return [
        f"Text: {texts}; the model knows {plan.vocabulary_size:,} words, {unknown} are others",
        f"Model: LSTM of {plan.n_parameters:,} parameters on {plan.device}",
        f"Search: {counted(plan.epochs, 'epoch')}{done} of {counted(plan.steps_per_epoch, 'step')}, "
        f"{counted(plan.policy_steps, 'step')} of lambda",
        f"Tuned: {starts}",
    ]


def _report(result: hba.SearchResult, out: Path) -> None:
    """What was found, where it is, and what to do next."""
    printer = console()
    resume = f"hba search-text --out {shlex.quote(str(out))} --resume"
    schedule = result.schedule
    if schedule is None:
        printer.print(f"Stopped before the end of the first epoch. Resume with:\n  {resume}")
        return
    for one in schedule.space.regularizers:
        first, last = (schedule.regularization(epoch)[one.name] for epoch in (0, schedule.epochs - 1))
        printer.print(f"  {one.name:<20} {one.initial:.3g} initially, {first:.3g} after epoch 1, {last:.3g} at the end")
    assert isinstance(result.network, hba.text.LstmLanguageModel)
    found, n_words = result.metrics[-1]["val_perplexity"] or math.nan, result.network.words.n_words
    printer.print(f"Perplexity of the search network on the validation text: {in_words(found)}")
    if found > n_words:
        printer.print(f"Guessing among {n_words:,} words has {n_words:,}, which is better; lower --learning-rate.")
    policy = out / "policy.json"
    printer.print(f"Schedule: {policy} ({result.metrics[-1]['seconds']:.0f} s)")
    if result.finished:
        printer.print(f"Next, see whether it helps:\n  hba evaluate-text {shlex.quote(str(policy))}")
    else:
        printer.print(f"Stopped after {counted(schedule.epochs, 'epoch')}; resume with:\n  {resume}")


@click.command(name="evaluate-text", cls=SectionedCommand)
@click.argument("schedule", shell_complete=SCHEDULE)
@click.argument("data", required=False, type=click.Path(path_type=Path))
@path_option("--out", help="Folder for results.json. [default: a new one in runs/]")
@click.option("--resume", is_flag=True, help="Resume the evaluation in --out; more seeds and baselines may be given.")
@click.option(
    "--against",
    metavar="NAMES",
    default="none,static,final",
    show_default=True,
    help=f"Fixed regularization to compare with, separated by commas: {', '.join(BASELINES)}.",
)
@settings_options(
    TextEvaluationConfig,
    without=("data",),
    default_texts=dict.fromkeys(TextEvaluationConfig.model_fields.keys() - {"seeds", "device"}, "as in the search"),
)
def evaluate_text(
    schedule: str, data: Path | None, out: Path | None, resume: bool, against: str, **options: Any
) -> None:
    """Train language models with SCHEDULE and with fixed regularization, and compare their test perplexities.

    DATA is the folder of text, by default that of the search.

    Ctrl-C, or SIGTERM, keeps the trainings that have ended; the same command with --out and --resume does the others.
    """
    if resume and out is None:
        raise SettingsError("--resume needs --out, the folder of the evaluation to resume")
    with run_folder(out, "evaluate") as folder, _EvaluationTerminal() as terminal, terminated_as_interrupted():
        try:
            found = hba.text.evaluate(
                schedule, data, against=against, out=folder, resume=resume, callback=terminal, **given(options)
            )
        except (KeyboardInterrupt, HbaError) as error:
            if terminal.n_done:
                say(kept_line(terminal.n_done, folder, has_diverged=isinstance(error, DivergedError)), err=True)
            raise
    for line in found.lines():
        console().print(line)
    console().print(f"Results: {folder / 'results.json'}")


class _EvaluationTerminal(TextEvaluationProgress):
    """Shows progress: a bar in a terminal, a line for each training elsewhere."""

    n_done = 0

    def training_done(self, name: str, seed: int, loss: Loss) -> None:
        self.n_done += 1
        super().training_done(name, seed, loss)
        if not self.bar.visible:
            say(f"{name}, seed {seed}: test perplexity {in_words(perplexity(loss.test))}")
