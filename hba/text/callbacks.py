"""How a search on text tells what it is doing, and is asked to stop; and the bar that shows it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hba.text.measure import in_words
from hba.text.result import TextSearchResult
from hba.utils.progress import ShowsBar
from hba.utils.text import first_of

SHOWN = 3


@dataclass(frozen=True)
class TextPlan:
    """All that is known before the first step. words: of each text, by name; unknown_percent: of those, what the
    vocabulary has not. lambda_steps: over all epochs. regularizers: by name, in natural units, as they stand now.
    """

    words: Mapping[str, int]
    unknown_percent: Mapping[str, float]
    vocabulary_size: int
    n_parameters: int
    device: str
    epochs: int
    epochs_done: int
    steps_per_epoch: int
    lambda_steps: int
    folder: Path | None
    regularizers: Mapping[str, float]


class TextObserver:
    """Override what you need; the defaults do nothing. All is called from the thread that searches."""

    def planned(self, plan: TextPlan) -> None:
        """All is read and made; nothing is trained yet."""

    def started(self, step: int, total_steps: int, words_per_step: int, n_epochs: int) -> None:
        """The first step follows; step is above 0 for a resumed search."""

    def step_done(self, step: int) -> None:
        """Training step `step`, counted from 1, and the lambda steps that belong to it are done."""

    def epoch_done(self, metrics: Mapping[str, float | None], values: Mapping[str, float]) -> None:
        """An epoch ended: what metrics.csv has of it, and the schedule's row by name, in natural units."""

    def stop_requested(self) -> bool:
        """True ends the search before its next step, with everything saved."""
        return False

    def search_ended(self, result: TextSearchResult) -> None:
        """After the last step, or the stop that was asked for. All is saved."""


class TextProgress(ShowsBar, TextObserver):
    """Shows a bar, as a context, in a terminal or a notebook. text: of the epoch that ended last."""

    def __init__(self) -> None:
        super().__init__()
        self.n_epochs = 0
        self.text = ""

    def started(self, step: int, total_steps: int, words_per_step: int, n_epochs: int) -> None:
        self.n_epochs = n_epochs
        self.bar.begin("first epoch", step, total_steps, "words", per_step=words_per_step)

    def step_done(self, step: int) -> None:
        self.bar.advance_to(step)

    def epoch_done(self, metrics: Mapping[str, float | None], values: Mapping[str, float]) -> None:
        found = [f"{name} {value:.3g}" for name, value in values.items()]
        train, val = (in_words(metrics[f"{part}_perplexity"] or math.nan) for part in ("train", "val"))
        self.text = (
            f"epoch {metrics['epoch']:.0f}/{self.n_epochs}: perplexity {train} in training, {val} in validation; "
            f"{first_of(found, SHOWN)}"
        )
        self.bar.describe(self.text)
