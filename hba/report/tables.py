"""Tables of a run, as its page and commands show them. Every number of a figure stands in one."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hba.report.findings import share
from hba.report.results import Difference, Results, Row
from hba.schedule.schedule import Schedule
from hba.schedule.summary import copies_of, spaced
from hba.utils.text import nats, of_seeds, percent, points

N_EPOCHS = 6
"""Columns of epochs."""
N_METRICS = 12
"""Rows of epochs."""
N_PAIRS = 10


class Table(NamedTuple):
    """Text, row by row."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def errors_table(results: Results) -> Table:
    """Test errors of each row: mean, standard deviation, each seed, and the difference to the schedule."""
    rows = tuple(
        (
            row.name,
            percent(row.mean),
            percent(row.std),
            f"{len(row.seeds)}",
            "  ".join(f"{error:.2f}" for error in row.test_error_percent),
            _difference(row.schedule_minus_row),
        )
        for row in results.rows
    )
    return Table(("trained with", "mean", "std", "seeds", "each seed", _minus_this(results)), rows)


def losses_table(results: Results) -> Table | None:
    """Test losses of each row, in nats; None where none was kept, as by older versions."""
    rows = tuple(
        (
            row.name,
            nats(loss.mean) + of_seeds(sum(one is not None for one in loss.nats), len(row.seeds)),
            nats(loss.std),
            "  ".join(map(nats, loss.nats)),
            _difference(loss.schedule_minus_row, digits=3),
        )
        for row in results.rows
        if (loss := row.test_loss) is not None and any(one is not None for one in loss.nats)
    )
    headings = ("trained with", "mean loss", "std", "loss of each seed", _minus_this(results))
    return Table(headings, rows) if rows else None


def balanced_table(results: Results) -> Table:
    """Balanced accuracy of each row: the mean of the classes' recalls."""
    rows = []
    for row in results.rows:
        found = row.balanced_accuracy
        if found is None:
            rows.append((row.name, "-", "-", ""))
            continue
        n_kept = sum(one is not None for one in found.percent)
        mean = percent(found.mean) + of_seeds(n_kept, len(row.seeds))
        rows.append((row.name, mean, percent(found.std), _difference(found.schedule_minus_row)))
    return Table(("trained with", "balanced accuracy", "std", _minus_this(results)), tuple(rows))


def _minus_this(results: Results) -> str:
    return f"{results.rows[0].name} minus this, 95 % interval"


def _difference(found: Difference | None, digits: int = 2) -> str:
    return "" if found is None else points(found.mean, found.interval, digits=digits)


def confusion_counts(results: Results) -> dict[str, np.ndarray]:
    """Images by class and answer (K, K), over all seeds: of the schedule, and of the row that the verdict is against.

    Empty where no matrix was kept, as by older versions.
    """
    n_classes = len(results.class_names or ())
    against = (results.verdict_details or {}).get("against")
    first, *others = results.rows
    shown = [first, *(row for row in others if row.name == against)]
    found = {row.name: _images(row, n_classes) for row in shown}
    return {name: images for name, images in found.items() if images is not None}


def _images(row: Row, n_classes: int) -> np.ndarray | None:
    matrices = [one.matrix() for one in row.confusions(n_classes) if one is not None]
    return np.sum(matrices, axis=0) if matrices else None


def shares_of(images: np.ndarray) -> np.ndarray:
    """(K, K): of each class's images, the share of each answer; 0 for a class without images."""
    shares: np.ndarray = images / np.maximum(1, images.sum(1, keepdims=True))
    return shares


def most_confused(shares: Sequence[np.ndarray], most: int = N_PAIRS) -> list[tuple[int, int]]:
    """The pairs (class, answer) of wrong answers that have the largest share in any of the matrices."""
    largest = np.max(shares, axis=0)
    np.fill_diagonal(largest, 0)
    order = np.argsort(-largest, axis=None, kind="stable")[:most]
    pairs = [divmod(int(index), len(largest)) for index in order]
    return [pair for pair in pairs if largest[pair] > 0]


def confused_table(counts: Mapping[str, np.ndarray], names: Sequence[str]) -> Table:
    """The most confused pairs of classes."""
    shares = {name: shares_of(images) for name, images in counts.items()}
    rows = tuple(
        (names[label], names[answer], *(share(one[label, answer]) for one in shares.values()))
        for label, answer in most_confused(list(shares.values()))
    )
    return Table(("class", "taken for", *shares), rows)


def recalls_table(counts: Mapping[str, np.ndarray], names: Sequence[str]) -> Table:
    """The share of each class that is right."""
    images = next(iter(counts.values())).sum(1)
    shares = [shares_of(one).diagonal() for one in counts.values()]
    rows = tuple(
        (name, *(share(one[label]) if images[label] else "-" for one in shares)) for label, name in enumerate(names)
    )
    return Table(("class", *(f"right by {name}" for name in counts)), rows)


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


def shares_table(names: Sequence[str], shares: np.ndarray, epochs: Sequence[int]) -> Table:
    """Shares (names, epochs) at some of the epochs, which are counted from 0."""
    shown = spaced(len(epochs), N_EPOCHS)
    rows = tuple((name, *(share(row[index]) for index in shown)) for name, row in zip(names, shares, strict=True))
    return Table(("", *(f"epoch {epochs[index] + 1}" for index in shown)), rows)


def metrics_table(lines: Mapping[str, Mapping[int, float]]) -> Table:
    """Values by name and epoch, at epochs in which all were measured, or any if there is no such epoch."""
    shared = sorted(set.intersection(*map(set, lines.values()))) or sorted(set.union(*map(set, lines.values())))
    epochs = [shared[index] for index in spaced(len(shared), N_METRICS)]
    cells = {epoch: [f"{line[epoch]:.6g}" if epoch in line else "" for line in lines.values()] for epoch in epochs}
    return Table(("epoch", *lines), tuple((f"{epoch}", *of_epoch) for epoch, of_epoch in cells.items()))
