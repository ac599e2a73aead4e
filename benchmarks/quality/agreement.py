"""How far searches of different seeds moved, and how alike: noise moves each its own way."""

import itertools
from collections.abc import Sequence
from math import ceil
from statistics import fmean

import numpy as np
import pandas as pd
from common.records import Record
from common.tables import NOTHING

from quality.planted_tables import RISE


def agreement_table(groups: Sequence[Sequence[Record]]) -> pd.DataFrame:
    """A row for each group of at least two searches that differ in their seeds only.

    Rises are those of the operations' probabilities, in logits, means over copies. The correlation is Pearson's between
    the rises of two searches, mean over all pairs: 1 where all moved alike, near 0 where each followed noise.
    """
    return pd.DataFrame(
        {
            "images": group[0].run.dataset,
            "search": group[0].run.name,
            "searches": str(len(group)),
            "policy steps": str(policy_steps(group[0])),
            "mean move (logits)": f"{np.abs(rises(group)).mean():.2f}",
            "correlation between seeds": _in_words(mean_correlation(rises(group))),
        }
        for group in groups
        if len(group) > 1
    )


def policy_steps(record: Record) -> int:
    """Of a search that has them from the first epoch on."""
    settings = record.run.settings
    steps = settings["epochs"] * ceil(settings["train_size"] / settings["batch_size"])
    return int(steps // settings["train_steps"])


def rises(group: Sequence[Record]) -> np.ndarray:
    """(searches, operations), operations in one order."""
    names = sorted(group[0].results["end"])
    return np.array([[record.results["end"][name][RISE] for name in names] for record in group])


def mean_correlation(rows: np.ndarray) -> float | None:
    """Over all pairs of rows (searches, operations); None where a search moved nothing, or all alike."""
    if (np.ptp(rows, axis=1) == 0).any():
        return None
    correlations = np.corrcoef(rows)
    return fmean(correlations[one, other] for one, other in itertools.combinations(range(len(rows)), 2))


def _in_words(correlation: float | None) -> str:
    return NOTHING if correlation is None else f"{correlation:.2f}"
