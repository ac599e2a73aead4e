"""Charts of losses and errors over epochs."""

from collections.abc import Mapping, Sequence

from hba.data.labels import error_in_words
from hba.report.figures import Chart, Series, Table
from hba.report.geometry import Axes, epoch_ticks, epochs_scale, from_zero, kept_apart, some_of, y_ticks
from hba.report.run import Metrics

LABEL_GAP = 8.5
N_TOLD = 12

Points = Mapping[int, float]
"""By epoch, counted from 1; only those that were measured."""


def loss_charts(metrics: Sequence[Metrics], epochs: int, error: str | None = None) -> tuple[Chart, ...]:
    """Loss and error, each of training and validation; none where nothing was measured. error: what an error is, None
    for the share of wrong answers.
    """
    charts = []
    for title, ending, digits in (("Loss", "loss", 3), (f"Error{error_in_words(error)}, per cent", "error_percent", 2)):
        of_each = {name: points_of(metrics, f"{start}_{ending}") for name, start in PARTS.items()}
        if any(of_each.values()):
            charts.append(chart(title, of_each, epochs, digits))
    return tuple(charts)


PARTS = {"training": "train", "validation": "val"}


def points_of(metrics: Sequence[Metrics], name: str) -> Points:
    found = ((row.get("epoch"), row.get(name)) for row in metrics)
    return {int(epoch): value for epoch, value in found if epoch is not None and value is not None}


def chart(title: str, lines: Mapping[str, Points], epochs: int, digits: int, styles: Sequence[str] = ()) -> Chart:
    """One line for each name, with dots where it was measured in some epochs only."""
    shown = {name: points for name, points in lines.items() if points}
    scale = from_zero(max(value for points in shown.values() for value in points.values()))
    axes = Axes(epochs_scale(epochs), scale)
    ends = [points[max(points)] for points in shown.values()]
    labels = kept_apart([100 - scale.share(end) for end in ends], LABEL_GAP)
    series = []
    for number, ((name, points), end, label) in enumerate(zip(shown.items(), ends, labels, strict=True)):
        told = sorted(points)
        is_sparse = len(told) == 1 or len(told) <= told[-1] - told[0]
        xs = told if is_sparse else [told[index] for index in some_of(len(told))]
        ys = [points[x] for x in xs]
        series.append(
            Series(
                name=name,
                value=f"{end:.{digits}f}",
                style=styles[number] if styles else name,
                line=axes.line(xs, ys),
                label_at=label,
                marks=axes.dots(xs, ys) if is_sparse else "",
            )
        )
    last = ", ".join(f"{one.name} {one.value} after epoch {max(shown[one.name])}" for one in series)
    return Chart(
        title=title,
        description=f"{title} over {epochs} epochs: {last}",
        series=tuple(series),
        x_ticks=tuple(epoch_ticks(epochs)),
        y_ticks=tuple(y_ticks(scale)),
        table=_numbers(shown),
    )


def _numbers(lines: Mapping[str, Points]) -> Table:
    """At epochs in which all were measured, or as many as there are."""
    shared = sorted(set.intersection(*(set(points) for points in lines.values())))
    epochs = shared or sorted(set.union(*(set(points) for points in lines.values())))
    told = [epochs[index] for index in some_of(len(epochs), N_TOLD)]
    rows = tuple((f"{epoch}", *(_number(points.get(epoch)) for points in lines.values())) for epoch in told)
    return Table(("epoch", *lines), rows)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
