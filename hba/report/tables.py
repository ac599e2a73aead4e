"""Tables of a run, as its page and commands show them. Every number of a figure stands in one."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hba.report.findings import share
from hba.report.results import EvaluationResult, EvaluationRow, Measure, mean_of, std_of
from hba.report.statistics import PairedDifference
from hba.schedule.schedule import Schedule
from hba.schedule.summary import copies_of, spaced
from hba.utils.text import nats, of_seeds, percent, points

N_EPOCHS, N_METRICS, N_PAIRS = 6, 12, 10
"""Most columns of epochs, rows of epochs, and pairs of classes in a table."""


class Table(NamedTuple):
    """Text, row by row."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


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
    headings = ("trained with", "mean loss", "std", "loss of each seed", _minus_this(results))
    rows = _rows_of(results, "test_loss", nats, digits=3)
    return Table(headings, rows) if rows else None


def balanced_table(results: EvaluationResult) -> Table:
    """Balanced accuracy of each row that has one: the mean of the classes' recalls."""
    headings = ("trained with", "balanced accuracy", "std", "that of each seed", _minus_this(results))
    return Table(headings, _rows_of(results, "balanced_accuracy", percent, digits=2))


def _rows_of(
    results: EvaluationResult, measure: Measure, text: Callable[[float | None], str], digits: int
) -> tuple[tuple[str, ...], ...]:
    """Of rows that have any: mean, standard deviation, each seed, which may lack it, the difference to the schedule."""
    differences, found = results.schedule_minus(measure), []
    for row in results.rows:
        by_seed = row.measured(measure)
        if by_seed:
            mean = text(mean_of(by_seed)) + of_seeds(len(by_seed), len(row.seeds))
            each = "  ".join(text(by_seed.get(seed)) for seed in row.seeds)
            found.append((row.name, mean, text(std_of(by_seed)), each, _difference(differences.get(row.name), digits)))
    return tuple(found)


def _minus_this(results: EvaluationResult) -> str:
    return f"{results.rows[0].name} minus this, 95 % interval"


def _difference(found: PairedDifference | None, digits: int = 2) -> str:
    return "" if found is None else points(found.mean, found.interval, digits=digits)


def confusion_shares(results: EvaluationResult) -> dict[str, np.ndarray]:
    """Of each class's images, the share of each answer (K, K), over all seeds, by the row's name.

    For the schedule and the row that the verdict compares it with; empty where no confusion matrix was kept, as by
    older versions. A class without images has zeros.
    """
    against = results.verdict and results.verdict.against
    shown = [results.rows[0], *(row for row in results.rows[1:] if row.name == against)]
    counts = {row.name: _images(row, len(results.class_names or ())) for row in shown}
    return {name: one / np.maximum(1, one.sum(1, keepdims=True)) for name, one in counts.items() if one is not None}


def _images(row: EvaluationRow, n_classes: int) -> np.ndarray | None:
    matrices = [one.matrix() for one in row.confusion if one is not None]
    return np.sum(matrices, axis=0) if matrices else None


def most_confused(shares: Sequence[np.ndarray], most: int = N_PAIRS) -> list[tuple[int, int]]:
    """The pairs (class, answer) of wrong answers that have the largest share in any of the matrices."""
    largest = np.max(shares, axis=0)
    np.fill_diagonal(largest, 0)
    order = np.argsort(-largest, axis=None, kind="stable")[:most]
    pairs = [divmod(int(index), len(largest)) for index in order]
    return [pair for pair in pairs if largest[pair] > 0]


def confused_table(shares: Mapping[str, np.ndarray], names: Sequence[str]) -> Table:
    """The most confused pairs of classes."""
    rows = tuple(
        (names[label], names[answer], *(share(one[label, answer]) for one in shares.values()))
        for label, answer in most_confused(list(shares.values()))
    )
    return Table(("class", "taken for", *shares), rows)


def curves_table(schedule: Schedule) -> Table:
    """Probability and magnitude of each copy of each operation, at some epochs."""
    epochs = spaced(schedule.epochs, N_EPOCHS)
    rows = []
    for operation in schedule.space.operations:
        for kind in ("probability", *(["magnitude"] if operation.magnitude_range is not None else [])):
            unit = f", {operation.unit}" if kind == "magnitude" and operation.unit else ""
            for number, copy in enumerate(copies_of(schedule, operation, kind)[epochs].T, start=1):
                which = f", copy {number}" if schedule.space.copies > 1 else ""
                rows.append((operation.name, f"{kind}{unit}{which}", *(f"{value:.6g}" for value in copy)))
    return Table(("operation", "quantity", *(f"epoch {epoch + 1}" for epoch in epochs)), tuple(rows))


def metrics_table(lines: Mapping[str, Mapping[int, float]]) -> Table:
    """Values by name and epoch, at epochs in which all were measured, or any if there is no such epoch."""
    shared = sorted(set.intersection(*map(set, lines.values()))) or sorted(set.union(*map(set, lines.values())))
    epochs = [shared[index] for index in spaced(len(shared), N_METRICS)]
    rows = tuple((f"{n}", *(f"{line[n]:.6g}" if n in line else "" for line in lines.values())) for n in epochs)
    return Table(("epoch", *lines), rows)
