"""What a search on text returns."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from hba.hypernet import HyperNetwork
from hba.schedule.schedule import Schedule
from hba.text.lstm import LstmLanguageModel


@dataclass(frozen=True)
class TextSearchResult:
    """schedule: one row of regularizers per finished epoch, None before the first. metrics: one mapping for each.

    finished: False when the callback stopped the search. lam (n,): where it stands, as logits. network: the trained
    language model that belongs to lam. hypernetwork: gives that of any other by hypernetwork.to_module(lam).
    """

    schedule: Schedule | None
    metrics: tuple[Mapping[str, float | None], ...]
    finished: bool
    network: LstmLanguageModel
    hypernetwork: HyperNetwork
    lam: Tensor
    folder: Path | None

    def __repr__(self) -> str:
        """One line, without the numbers that it holds."""
        found = self.metrics[-1]["val_perplexity"] if self.metrics else None
        return (
            f"TextSearchResult(epochs={len(self.metrics)}, finished={self.finished}, "
            f"val_perplexity={None if found is None else round(found, 1)}, "
            f"folder={None if self.folder is None else str(self.folder)!r})"
        )
