"""The tables of docs/domains.md: which augmentation helps on each set, whether searches
find it, and the verdict.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from common.records import Record, newest
from common.tables import (
    NOTHING,
    difference,
    difference_text,
    frame_of,
    sign_of,
    spread_text,
)

from hba.results.statistics import PairedDifference
from hba.schedule.recipes import RECIPES
from image_sets.runs import BALANCED, FLIPS, GROUPS, SEARCH, SETS, changed

LOSS = "val_calibrated_loss"
ERROR = "error"
APPLIED = 0.05
"""A search applies an operation if its probability is above this."""
DRAWS = 10_000
"""Draws of the bootstrap."""
LEAST_ERROR = 0.1
"""Errors below this, in per cent, count as this, because a ratio to zero says nothing.
"""
Frames = Mapping[str, pd.DataFrame]
"""By set, a frame with a row for each run."""


def frames_of(records: Iterable[Record], measured_on: str) -> Frames:
    """The newest runs of each set and name. The column ERROR has the error by which the
    set is judged.
    """
    kept = newest(records, lambda run: (run.dataset, run.name))
    frames = {}
    for name in SETS:
        frame = frame_of(record for record in kept if record.run.dataset == name)
        error = f"{measured_on}_{'balanced_' if name == BALANCED else ''}error_percent"
        if error in frame:
            frames[name] = frame.assign(**{ERROR: frame[error]})
    return frames


def best_recipe(frame: pd.DataFrame) -> str | None:
    """Of the recipes that have run, the one with the lowest mean calibrated loss over
    the seeds that all of them have; None without such a seed.
    """
    table = (
        frame[frame["name"].isin([*RECIPES])]
        .pivot_table(index="seed", columns="name", values=LOSS)
        .dropna()
    )
    return str(table.mean().idxmin()) if len(table) else None


class Pair(NamedTuple):
    """A set and a group of operations."""

    name: str
    """The name of the set."""
    group: str
    """The name of the group."""
    loss: PairedDifference | None
    """The difference in loss of trainings with and without the group."""
    error: PairedDifference | None
    """The difference in error of trainings with and without the group."""
    applied: Sequence[bool]
    """Which searches apply the group."""

    @property
    def agrees(self) -> bool | None:
        """Whether more than half of the searches are right; None if the truth is not
        known or searches are missing.
        """
        right = [
            was_applied == (sign_of(self.loss) < 0) for was_applied in self.applied
        ]
        return 2 * sum(right) > len(right) if sign_of(self.loss) and right else None

    @property
    def text(self) -> str:
        searches = (
            f"; {sum(self.applied)} of {len(self.applied)} searches"
            if self.applied
            else ""
        )
        return f"{self.group} ({difference_text(self.loss, 2)}{searches})"


def pairs_of(frames: Frames, verdict: Frames) -> list[Pair]:
    """Return pairs for the sets whose recipes have run.

    Args:
        frames: Frames of the runs that tell the truth.
        verdict: Frames of runs whose searches are compared with the truth.
    """
    pairs = []
    for name, frame in frames.items():
        best = best_recipe(frame)
        rows = verdict.get(name, pd.DataFrame({"name": []}))
        ends = (
            [result["end"] for result in rows.loc[rows["name"] == SEARCH, "search"]]
            if "search" in rows
            else []
        )
        for group, operations in GROUPS.items() if best else ():
            on, off = (changed(str(best), group, is_on)[0] for is_on in (True, False))
            loss, error = (
                difference(frame, on, off, measure) for measure in (LOSS, ERROR)
            )
            pairs.append(
                Pair(
                    name,
                    group,
                    loss,
                    error,
                    [largest(end, operations) > APPLIED for end in ends],
                )
            )
    return pairs


def group_table(pairs: Iterable[Pair]) -> pd.DataFrame:
    """For each set, the groups that help, those that harm, and those in which the
    searches disagree.
    """
    rows: dict[str, dict[str, list[str]]] = {}
    for pair in pairs:
        row = rows.setdefault(
            pair.name, {"helps": [], "harms": [], "searches disagree": []}
        )
        if sign := sign_of(pair.loss):
            row["helps" if sign < 0 else "harms"].append(pair.text)
        if pair.agrees is False:
            row["searches disagree"].append(pair.group)
    return pd.DataFrame(
        {
            "set": name,
            **{head: "<br>".join(texts) or NOTHING for head, texts in row.items()},
        }
        for name, row in rows.items()
    )


def largest(end: Mapping[str, Mapping[str, float]], operations: Iterable[str]) -> float:
    """Return the largest probability of the operations.

    Args:
        end: The results of a search by operation.
        operations: Names of operations.
    """
    return max(
        end[operation]["probability"] if operation in end else 0.0
        for operation in operations
    )


def recipe_table(frames: Frames) -> pd.DataFrame:
    """Validation error in per cent of each recipe that has run; a star marks the lowest
    calibrated loss on a set.
    """
    have_run = {row for frame in frames.values() for row in frame["name"]}
    recipes = [name for name in RECIPES if name in have_run]
    table = pd.DataFrame({"recipe": recipes})
    for name, frame in frames.items():
        cells = dict.fromkeys(recipes, NOTHING)
        best = best_recipe(frame)
        for row, runs in frame[frame["name"].isin(recipes)].groupby("name"):
            star = " *" if row == best else ""
            cells[row] = f"{spread_text(runs[ERROR], 1)}{star}"
        table[name] = [*cells.values()]
    return table


def verdict_table(frames: Frames, rows: Sequence[str]) -> pd.DataFrame:
    """Test error of each row on each set, and the ratio of the search's error to it.
    Further rows compare the search with the best other row and with two recipes, and
    show the largest probability of a flip or turn, and the price.
    """
    beside = ("randaugment", "photo")
    minus_best = f"{SEARCH} minus the best recipe"
    compared = [f"{SEARCH} minus {row}" for row in beside]
    heads = [
        *rows,
        minus_best,
        *compared,
        "flips and turns, at most",
        "price of a search",
    ]
    table = pd.DataFrame({"trained with": heads})
    for name, frame in frames.items():
        errors = {row: runs[ERROR] for row, runs in frame.groupby("name")}
        best = min(
            (row for row in errors if row != SEARCH),
            key=lambda row: errors[row].mean(),
            default=NOTHING,
        )
        searched = frame[frame["name"] == SEARCH]
        results = searched["search"].tolist() if len(searched) else []
        prices = [
            result["seconds"] / seconds
            for result, seconds in zip(results, searched["seconds"], strict=True)
        ]
        minus = {
            row: difference_text(difference(frame, SEARCH, row, ERROR), 1)
            for row in (best, *beside)
        }
        table[name] = [
            *(
                spread_text(errors[row], 1) if row in errors else NOTHING
                for row in rows
            ),
            *(f"{minus[best]}, {best}", *(minus[row] for row in beside)),
            ", ".join(
                f"{largest(result['end'], FLIPS.values()):.2f}" for result in results
            )
            or NOTHING,
            spread_text(prices) if prices else NOTHING,
        ]
    recipes = {row: ratio(frames, row) for row in rows if row != SEARCH}
    return table.assign(
        **{"search's error by this one's": [recipes.get(row, "") for row in heads]}
    )


def mean_over_sets(frames: Frames, row: str) -> str:
    """The mean over sets of the mean error of a row in per cent."""
    means = [frame.loc[frame["name"] == row, ERROR].mean() for frame in frames.values()]
    return f"{np.mean(means):.1f}" if means else NOTHING


def ratio(frames: Frames, row: str, of: str = SEARCH) -> str:
    """The geometric mean over sets of the error of one row divided by that of another,
    with its 95 % interval.

    The interval comes from a bootstrap over sets and, within each set, over seeds that
    both rows share.

    Args:
        frames: Errors by name and seed.
        row: The name of the row in the denominator.
        of: The name of the row in the numerator.
    """
    random = np.random.default_rng(0)
    means = []
    resampled = []
    for frame in frames.values():
        table = (
            frame.pivot_table(index="seed", columns="name", values=ERROR)
            .reindex(columns=[of, row])
            .dropna()
        )
        if n_seeds := len(table):
            errors = table.to_numpy().T
            seeds = random.integers(n_seeds, size=(DRAWS, len(frames), n_seeds))
            means.append(_log_ratio(errors))
            resampled.append(_log_ratio(errors[:, seeds]))
    if not (n_means := len(means)):
        return NOTHING
    sets = random.integers(n_means, size=(DRAWS, n_means))
    drawn = np.stack(resampled)[
        sets, np.arange(DRAWS)[:, None], np.arange(n_means)
    ].mean(axis=1)
    low, high = np.exp(np.quantile(drawn, (0.025, 0.975)))
    return (
        f"{np.exp(np.mean(means)):.2f} ({low:.2f} to {high:.2f}),"
        f" {n_means} of {len(SETS)} sets"
    )


def _log_ratio(errors: np.ndarray) -> np.ndarray:
    """errors (2, ..., seeds): of two rows."""
    return np.subtract(*np.log(np.maximum(errors.mean(axis=-1), LEAST_ERROR)))
