"""Tables of a run, as its page and commands show them."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hba.report.results import EvaluationResult, Measure, mean_of, std_of
from hba.report.statistics import PairedDifference
from hba.utils.text import nats, of_seeds, percent, points

N_PAIRS = 10
"""Most pairs of classes in a table."""


class Table(NamedTuple):
    """Text, row by row."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def share(value: float) -> str:
    """`12.4 %`"""
    return f"{100 * value:.1f} %"


def errors_table(results: EvaluationResult) -> Table:
    """Test errors of each row: mean, standard deviation, each seed, and the difference to the schedule."""
    rows = tuple(
        (
            row.name,
            percent(row.mean),
            percent(row.std),
            f"{len(row.seeds)}",
            "  ".join(f"{error:.2f}" for error in row.test_error_percent),
            _difference(results.differences.get(row.name)),
        )
        for row in results.rows
    )
    return Table(("trained with", "mean", "std", "seeds", "each seed", _minus_this(results)), rows)


def losses_table(results: EvaluationResult) -> Table | None:
    """Test losses of each row, in nats; None where none was stored, as by older versions."""
    return _measured_table(results, "test_loss", ("mean loss", "std", "loss of each seed"), nats, digits=3)


def balanced_table(results: EvaluationResult) -> Table | None:
    """Balanced accuracy of each row, the mean of the classes' recalls; None where none was stored."""
    headings = ("balanced accuracy", "std", "that of each seed")
    return _measured_table(results, "balanced_accuracy", headings, percent, digits=2)


def _measured_table(
    results: EvaluationResult,
    measure: Measure,
    headings: tuple[str, ...],
    text: Callable[[float | None], str],
    digits: int,
) -> Table | None:
    """Of rows that have any: mean, standard deviation, each seed, which may lack it, the difference to the schedule."""
    differences, rows = results.schedule_minus(measure), []
    for row in results.rows:
        if by_seed := row.by_seed(measure):
            mean = text(mean_of(by_seed)) + of_seeds(len(by_seed), len(row.seeds))
            each = "  ".join(text(by_seed.get(seed)) for seed in row.seeds)
            rows.append((row.name, mean, text(std_of(by_seed)), each, _difference(differences.get(row.name), digits)))
    return Table(("trained with", *headings, _minus_this(results)), tuple(rows)) if rows else None


def _minus_this(results: EvaluationResult) -> str:
    return f"{results.rows[0].name} minus this, 95 % interval"


def _difference(found: PairedDifference | None, digits: int = 2) -> str:
    return "" if found is None else points(found.mean, found.interval, digits=digits)


def confused_table(results: EvaluationResult) -> Table | None:
    """The pairs (class, answer) that the schedule, or the row that the verdict compares it with, confuses most: the
    share of the class's images, over all seeds. None where no confusion matrix was kept, as by older versions.
    """
    against, names = results.verdict and results.verdict.against, results.class_names or ()
    shares: dict[str, np.ndarray] = {}
    for row in [results.rows[0], *(row for row in results.rows[1:] if row.name == against)]:
        if matrices := [one.matrix() for one in row.confusion if one is not None]:
            counts = np.sum(matrices, axis=0)
            shares[row.name] = counts / np.maximum(1, counts.sum(1, keepdims=True))
    if not shares:
        return None
    largest = np.max(list(shares.values()), axis=0)
    np.fill_diagonal(largest, 0)
    order = np.argsort(-largest, axis=None, kind="stable")[:N_PAIRS]
    rows = tuple(
        (names[label], names[answer], *(share(one[label, answer]) for one in shares.values()))
        for label, answer in (divmod(int(index), len(largest)) for index in order)
        if largest[label, answer] > 0
    )
    return Table(("class", "taken for", *shares), rows)
