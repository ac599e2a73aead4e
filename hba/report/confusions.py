"""Which classes are taken for which: by the schedule's networks, and by those of the best other row."""

from collections.abc import Sequence

import numpy as np

from hba.report.figures import ClassLabel, Confusions, Matrix, Shade, Table
from hba.report.findings import share
from hba.report.results import Results, Row
from hba.utils.text import of_seeds, percent, points

MOST_CLASSES = 100
"""Of more, a matrix shows nothing, and the most confused pairs are told alone."""
NAMED_CLASSES = 20
"""Of more, the names beside a matrix would not be legible."""
N_PAIRS = 10
LEVELS = ((0.01, 0.05, "n1"), (0.05, 0.2, "n2"), (0.2, 0.5, "n3"), (0.5, 1.0, "n4"))
"""From a share of a class's images to another, with a class of page.css; below the first, nothing is drawn."""


def confusions(results: Results) -> Confusions | None:
    """Means over seeds; None where no matrix was kept, as by older versions."""
    names = results.class_names or ()
    against = None if results.verdict_details is None else results.verdict_details.get("against")
    first, *others = results.rows
    shown = [first, *(row for row in others if row.name == against)]
    counts = {row.name: found for row in shown if (found := _images(row, len(names))) is not None}
    if not counts:
        return None
    shares = {name: _shares(images) for name, images in counts.items()}
    is_drawn = len(names) <= MOST_CLASSES
    balanced = Table(
        ("trained with", "balanced accuracy", "std", f"{first.name} minus this, 95 % interval"),
        tuple(_balanced(row) for row in results.rows),
    )
    return Confusions(
        matrices=tuple(_matrix(name, found, names) for name, found in shares.items()) if is_drawn else (),
        legend=tuple((f"{100 * low:g} to {100 * high:g} %", style) for low, high, style in LEVELS),
        pairs=_pairs(shares, names),
        recalls=_recalls(counts, shares, names) if is_drawn else None,
        balanced=balanced,
    )


def _images(row: Row, n_classes: int) -> np.ndarray | None:
    """(K, K): by class and answer, over all seeds."""
    matrices = [one.matrix() for one in row.confusions(n_classes) if one is not None]
    return np.sum(matrices, axis=0) if matrices else None


def _shares(images: np.ndarray) -> np.ndarray:
    """(K, K): of each class's images; 0 for a class without."""
    shares: np.ndarray = images / np.maximum(1, images.sum(1, keepdims=True))
    return shares


def _matrix(name: str, shares: np.ndarray, names: Sequence[str]) -> Matrix:
    side = 100 / len(names)
    shades = []
    for low, high, style in LEVELS:
        # The last level has its upper end.
        labels, answers = np.nonzero((shares >= low) & ((shares < high) | (high == 1)))
        cells = zip(labels.tolist(), answers.tolist(), strict=True)
        paths = "".join(
            f"M{answer * side:.5g},{label * side:.5g}h{side:.5g}v{side:.5g}h{-side:.5g}z" for label, answer in cells
        )
        shades.append(Shade(style, paths))
    worst = ", ".join(
        f"{names[label]} for {names[answer]} {share(shares[label, answer])}"
        for label, answer in _most_confused([shares], 3)
    )
    labels_beside = names if len(names) <= NAMED_CLASSES else ()
    return Matrix(
        name=name,
        description=f"Confusion matrix of {name}: a row for each class, a column for each answer; most often taken: "
        f"{worst or 'none'}",
        shades=tuple(shades),
        classes=tuple(ClassLabel(text, round((number + 0.5) * side, 2)) for number, text in enumerate(labels_beside)),
    )


def _most_confused(shares: Sequence[np.ndarray], most: int) -> list[tuple[int, int]]:
    """The pairs (label, answer) that are wrong and have the largest share in any of the matrices."""
    largest = np.max(shares, axis=0)
    np.fill_diagonal(largest, 0)
    order = np.argsort(-largest, axis=None, kind="stable")[:most]
    pairs = [divmod(int(index), len(largest)) for index in order]
    return [pair for pair in pairs if largest[pair] > 0]


def _pairs(shares: dict[str, np.ndarray], names: Sequence[str]) -> Table:
    found = _most_confused(list(shares.values()), N_PAIRS)
    rows = tuple(
        (names[label], names[answer], *(share(one[label, answer]) for one in shares.values()))
        for label, answer in found
    )
    return Table(("class", "taken for", *shares), rows)


def _recalls(counts: dict[str, np.ndarray], shares: dict[str, np.ndarray], names: Sequence[str]) -> Table:
    images = next(iter(counts.values())).sum(1)
    rows = tuple(
        (name, *(share(one[label, label]) if images[label] else "-" for one in shares.values()))
        for label, name in enumerate(names)
    )
    return Table(("class", *(f"right by {name}" for name in shares)), rows)


def _balanced(row: Row) -> tuple[str, ...]:
    found = row.balanced_accuracy
    if found is None:
        return row.name, "-", "-", ""
    minus = found.schedule_minus_row
    difference = "" if minus is None else points(minus.mean, minus.interval)
    n_kept = sum(one is not None for one in found.percent)
    return row.name, percent(found.mean) + of_seeds(n_kept, len(row.seeds)), percent(found.std), difference
