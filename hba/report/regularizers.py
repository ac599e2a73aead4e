"""Small panels of a schedule's regularizers: the value of each in its unit, over epochs."""

from collections.abc import Sequence

from hba.report.figures import Curve, Panel, Panels, Table
from hba.report.findings import natural
from hba.report.geometry import MOST_POINTS, Axes, Scale, epochs_scale, some_of
from hba.schedule.schedule import Schedule
from hba.schedule.summary import RegularizerSummary, by_group, place_of, summarize_regularizers

MOST_POINTS_OF_ALL = 20_000
FEWEST_POINTS = 8
N_TOLD = 6
"""Epochs in the table of numbers."""
SCALE = Scale(0.0, 1.0)
"""Of places in a range."""
STYLE = "regularizer"


def regularizer_panels(schedule: Schedule) -> Panels:
    """A panel for each group, with a plot for each of its hyperparameters."""
    summaries = summarize_regularizers(schedule)
    epochs = some_of(schedule.epochs, max(FEWEST_POINTS, min(MOST_POINTS, MOST_POINTS_OF_ALL // len(summaries))))
    panels = [
        Panel(name, "", tuple(_curve(schedule, one, epochs) for one in group))
        for name, group in by_group(summaries).items()
    ]
    return Panels(tuple(panels), schedule.epochs, _numbers(schedule, summaries))


def _curve(schedule: Schedule, summary: RegularizerSummary, epochs: Sequence[int]) -> Curve:
    one = summary.hyperparameter
    before, after = (f"{summary.values[epoch]:.3g}" for epoch in (0, -1))
    places = [place_of(one, summary.values[epoch]) for epoch in epochs]
    own = None if one.name == one.group else one.own_name
    told = [own, None if one.unit == own else one.unit, "log scale" if one.scale == "log" else None]
    moved = f"stays at {after}" if before == after else f"from {before} to {after}"
    return Curve(
        quantity=", ".join(filter(None, told)) or "value",
        style=STYLE,
        before=before,
        after=after,
        low=_end(one.low),
        high=_end(one.high),
        bands=(),
        lines=(Axes(epochs_scale(schedule.epochs), SCALE).line([epoch + 1 for epoch in epochs], places),),
        description=f"{natural_name(summary)} over {schedule.epochs} epochs: {moved}",
    )


def _end(value: float) -> str:
    """`1e-6`: there is little room."""
    return f"{value:g}".replace("e-0", "e-")


def natural_name(summary: RegularizerSummary) -> str:
    one = summary.hyperparameter
    return f"{one.name}, {one.unit}" if one.unit else one.name


def _numbers(schedule: Schedule, summaries: Sequence[RegularizerSummary]) -> Table:
    epochs = some_of(schedule.epochs, N_TOLD)
    rows = [
        (
            one.hyperparameter.name,
            natural(one.began, one.hyperparameter.unit),
            *(f"{one.values[epoch]:.6g}" for epoch in epochs),
        )
        for one in summaries
    ]
    return Table(("regularizer", "began at", *(f"epoch {epoch + 1}" for epoch in epochs)), tuple(rows))
