"""Small panels of a schedule's operations: probability, and magnitude in its unit, over epochs."""

from collections.abc import Sequence

import numpy as np

from hba.operations import Operation
from hba.report.figures import Curve, Panel, Panels, Table
from hba.report.findings import share
from hba.report.geometry import MOST_POINTS, Axes, Scale, epochs_scale, some_of
from hba.schedule.schedule import Schedule
from hba.schedule.summary import band, copies_of, reach, summarize

MOST_POINTS_OF_ALL = 20_000
"""Of all curves and both ends of their bands, so a page stays small however many operations there are."""
FEWEST_POINTS = 8
N_TOLD = 6
"""Epochs in the table of numbers."""


def operation_panels(schedule: Schedule) -> Panels:
    last = schedule.epochs - 1
    summaries = summarize(schedule, (0, last))
    reached = reach(schedule, last).shares
    bands = band(schedule) if schedule.spread.any() else ()
    n_curves = 3 * len(schedule.space.names)
    epochs = some_of(schedule.epochs, max(FEWEST_POINTS, min(MOST_POINTS, MOST_POINTS_OF_ALL // n_curves)))
    panels = []
    for summary in summaries:
        operation = summary.operation
        curves = [_curve(schedule, bands, operation, "probability", epochs, summary.probability)]
        if summary.magnitude is not None:
            curves.append(_curve(schedule, bands, operation, "magnitude", epochs, summary.magnitude))
        panels.append(Panel(operation.name, share(reached[operation.name]), tuple(curves)))
    operations = [summary.operation for summary in summaries]
    return Panels(tuple(panels), schedule.epochs, _numbers(schedule, operations))


def _curve(
    schedule: Schedule,
    bands: Sequence[Schedule],
    operation: Operation,
    kind: str,
    epochs: Sequence[int],
    ends: Sequence[float],
) -> Curve:
    """ends: means over copies at the first and the last epoch."""
    is_probability = kind == "probability"
    low, high = (0.0, 1.0) if is_probability else sorted(operation.magnitude_range or (0.0, 1.0))
    axes = Axes(epochs_scale(schedule.epochs), Scale(low, high))
    xs = [epoch + 1 for epoch in epochs]

    def of(rows: Schedule) -> np.ndarray:
        """One row for each copy."""
        return copies_of(rows, operation, kind)[list(epochs)].T

    before, after = (_shown(end, kind) for end in (ends[0], ends[-1]))
    quantity = "probability" if is_probability else operation.unit or "magnitude"
    moved = f"stays at {after}" if before == after else f"from {before} to {after}"
    return Curve(
        quantity=quantity,
        style=kind,
        before=before,
        after=after,
        low=f"{low:g}",
        high=f"{high:g}",
        bands=tuple(axes.area(xs, *ends_of_copy) for ends_of_copy in zip(*map(of, bands), strict=True)),
        lines=tuple(axes.line(xs, copy) for copy in of(schedule)),
        description=f"{operation.name}, {quantity} over {schedule.epochs} epochs: {moved}",
    )


def _shown(value: float, kind: str) -> str:
    return f"{value:.2f}" if kind == "probability" else f"{value:.3g}"


def _numbers(schedule: Schedule, operations: Sequence[Operation]) -> Table:
    """A row for each copy's quantity, at some epochs."""
    epochs = some_of(schedule.epochs, N_TOLD)
    rows = []
    for operation in operations:
        for kind in ("probability", *(["magnitude"] if operation.magnitude_range is not None else [])):
            unit = f", {operation.unit}" if kind == "magnitude" and operation.unit else ""
            for number, copy in enumerate(copies_of(schedule, operation, kind)[epochs].T, start=1):
                which = f", copy {number}" if schedule.space.copies > 1 else ""
                rows.append((operation.name, f"{kind}{unit}{which}", *(f"{value:.6g}" for value in copy)))
    return Table(("operation", "quantity", *(f"epoch {epoch + 1}" for epoch in epochs)), tuple(rows))
