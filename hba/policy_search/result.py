"""What a search returns."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from hba.hypernet import HyperNetwork
from hba.schedule.schedule import Schedule


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    schedule: one row per finished epoch, None before the first. metrics: one mapping per finished epoch.
    finished: False when the callback stopped the search. lam (n,): where it stands, as logits. network: the trained
    network that belongs to lam. hypernetwork: its to_module(lam) gives the network of any other lam; None for the
    algorithms that have none, `lookahead` and `population`. notes: what a person should know of it, as of one that is
    too short; the sentences of SearchPlan.notes, and one where its network did not overfit. report: the page in
    its folder; None without a folder, before the first epoch is over, and where it could not be written.
    """

    schedule: Schedule | None
    metrics: tuple[Mapping[str, float | None], ...]
    finished: bool
    network: nn.Module
    hypernetwork: HyperNetwork | None
    lam: Tensor
    folder: Path | None
    notes: tuple[str, ...] = ()
    report: Path | None = None

    def __repr__(self) -> str:
        """One line, without the numbers that it holds."""
        error = self.metrics[-1]["val_error_percent"] if self.metrics else None
        return (
            f"SearchResult(epochs={len(self.metrics)}, finished={self.finished}, "
            f"val_error_percent={None if error is None else round(error, 2)}, "
            f"network={type(self.network).__name__}, folder={None if self.folder is None else str(self.folder)!r})"
        )
