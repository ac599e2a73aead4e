"""hba search-text: find a schedule of regularisation for a language model."""

import math
import shlex
import signal
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import click

import hba.text
from hba.errors import SettingsError
from hba.text.callbacks import TextPlan, TextProgress
from hba.text.config import OF_IMAGES, TEXT_ALGORITHMS, TextSearchConfig
from hba.text.measure import in_words
from hba.utils.text import counted

from .options import algorithm_options, given, settings_options
from .sections import SectionedCommand
from .terminal import console, run_folder, say

N_LINES = 10


@click.command(name="search-text", cls=SectionedCommand)
@click.argument("data", required=False, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the run. [default: a new one in runs/]")
@click.option(
    "--resume",
    is_flag=True,
    help="Resume the run in --out, with its settings: DATA may be where its text is now, --epochs may be more.",
)
@settings_options(TextSearchConfig, without=("data", "algorithm"), default_texts={})
@algorithm_options(
    TEXT_ALGORITHMS, "How the search moves lambda: stn, or delta-stn.", default_texts={}, without=OF_IMAGES
)
def search_text(data: Path | None, out: Path | None, resume: bool, **options: Any) -> None:
    """Search a schedule of regularisation for a language model on DATA.

    DATA is a folder with train.txt, valid.txt and test.txt, words between blanks. The test text stays unopened.
    """
    if resume and out is None:
        raise SettingsError("--resume needs --out, the folder of the run to resume")
    if data is None and not resume:
        raise SettingsError("DATA must be named: a folder with train.txt, valid.txt and test.txt")
    name = "" if data is None else data.resolve().name
    with run_folder(out, name) as folder:
        with _Terminal() as callback:
            try:
                result = hba.text.search(data, out=folder, resume=resume, callback=callback, **given(options))
            finally:
                callback.restore_signals()
        _report(result, folder)
    if not result.finished:
        raise SystemExit(130)


class _Terminal(TextProgress):
    """Shows progress: a bar in a terminal, a few lines elsewhere. Ctrl-C or SIGTERM ends the search after its step."""

    def __init__(self) -> None:
        super().__init__()
        self.stop = False
        self.previous_handlers: dict[int, Any] = {}

    def planned(self, plan: TextPlan) -> None:
        for line in plan_lines(plan):
            say(line)

    def started(self, step: int, total_steps: int, words_per_step: int, n_epochs: int) -> None:
        super().started(step, total_steps, words_per_step, n_epochs)
        for number in (signal.SIGINT, signal.SIGTERM):
            self.previous_handlers[number] = signal.signal(number, self._request_stop)

    def _request_stop(self, number: int, frame: FrameType | None) -> None:
        """The second one ends the process at once."""
        self.stop = True
        self.restore_signals()

    def restore_signals(self) -> None:
        for number, handler in self.previous_handlers.items():
            signal.signal(number, handler)

    def stop_requested(self) -> bool:
        return self.stop

    def epoch_done(self, metrics: Mapping[str, float | None], values: Mapping[str, float]) -> None:
        super().epoch_done(metrics, values)
        if not self.bar.visible and int(metrics["epoch"] or 0) % max(1, self.n_epochs // N_LINES) == 0:
            say(self.text)


def plan_lines(plan: TextPlan) -> list[str]:
    """What is about to be done."""
    texts = ", ".join(f"{count:,} words in {name}.txt" for name, count in plan.words.items())
    unknown = ", ".join(f"{share:.1f} % of {name}.txt" for name, share in plan.unknown_percent.items())
    done = f", {plan.epochs_done} of them done" if plan.epochs_done else ""
    starts = ", ".join(f"{name} {value:.3g}" for name, value in plan.regularizers.items())
    return [
        f"Text: {texts}; the model knows {plan.vocabulary_size:,} words, {unknown} are others",
        f"Model: LSTM of {plan.n_parameters:,} parameters on {plan.device}",
        f"Search: {counted(plan.epochs, 'epoch')}{done} of {counted(plan.steps_per_epoch, 'step')}, "
        f"{counted(plan.lambda_steps, 'step')} of lambda",
        f"Tuned: {starts}",
    ]


def _report(result: hba.text.TextSearchResult, out: Path) -> None:
    """What was found, where it is, and what to do next."""
    printer = console()
    go_on = f"hba search-text --out {shlex.quote(str(out))} --resume"
    schedule = result.schedule
    if schedule is None:
        printer.print(f"Stopped before the end of the first epoch. Resume with:\n  {go_on}")
        return
    for one in schedule.space.regularizers:
        first, last = (schedule.regularization(epoch)[one.name] for epoch in (0, schedule.epochs - 1))
        printer.print(
            f"  {one.name:<20} {one.initial:.3g} at the start, {first:.3g} after epoch 1, {last:.3g} in the end"
        )
    perplexity, n_words = result.metrics[-1]["val_perplexity"] or math.nan, result.network.words.n_words
    printer.print(f"Perplexity of the search's own network on the validation text: {in_words(perplexity)}")
    if perplexity > n_words:
        printer.print(
            f"That is worse than guessing among {n_words:,} words, which has {n_words:,}; lower --learning-rate."
        )
    policy = out / "policy.json"
    printer.print(f"Schedule: {policy} ({result.metrics[-1]['seconds']:.0f} s)")
    if result.finished:
        printer.print(f"Next, see whether it helps:\n  hba evaluate-text {shlex.quote(str(policy))}")
    else:
        printer.print(f"Stopped after {counted(schedule.epochs, 'epoch')}; resume with:\n  {go_on}")
