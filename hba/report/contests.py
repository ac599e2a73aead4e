"""The rows of an evaluation side by side: the test error of each seed, and the difference to each row."""

from collections.abc import Sequence

from hba.report.figures import Contest, Contests, Table
from hba.report.geometry import Axes, Scale, around, x_ticks
from hba.report.results import Difference, Results, Row
from hba.utils.text import nats, of_seeds, percent, points


def contests(results: Results) -> Contests:
    errors = [error for row in results.rows for error in row.test_error_percent]
    error_scale = around(min(errors), max(errors)) if errors else Scale(0.0, 100.0)
    seeds = sorted({seed for row in results.rows for seed in row.seeds})
    ends = [end for row in results.rows if (found := row.schedule_minus_row) for end in _ends(found)]
    difference_scale = around(min([0.0, *ends]), max([0.0, *ends])) if ends else Scale(-1.0, 1.0)
    return Contests(
        rows=tuple(_contest(row, seeds, error_scale, difference_scale) for row in results.rows),
        error_ticks=tuple(x_ticks(error_scale)),
        difference_ticks=tuple(x_ticks(difference_scale)) if ends else (),
        zero=difference_scale.share(0.0),
        table=errors_table(results),
    )


def _ends(difference: Difference) -> tuple[float, ...]:
    return (difference.mean, *(difference.interval or ()))


def _contest(row: Row, seeds: Sequence[int], errors: Scale, differences: Scale) -> Contest:
    found = row.schedule_minus_row
    interval = None if found is None else found.interval
    axes = Axes(errors, Scale(0.0, 1.0))
    told = "" if found is None else f"; the schedule minus this: {points(found.mean, interval)} points"
    each = ", ".join(f"{error:.2f}" for error in row.test_error_percent)
    return Contest(
        name=row.name,
        # The same seed at the same height in all rows, and none above another.
        seeds=axes.dots(row.test_error_percent, [1 - (seeds.index(seed) + 1) / (len(seeds) + 1) for seed in row.seeds]),
        mean=None if row.mean is None else errors.share(row.mean),
        mean_text=percent(row.mean),
        interval=None if interval is None else (differences.share(interval[0]), differences.share(interval[1])),
        difference=None if found is None else differences.share(found.mean),
        difference_text="" if found is None else points(found.mean, interval),
        style=_style(interval),
        description=f"{row.name}: test error {percent(row.mean)}, by seed {each}{told}",
    )


def _style(interval: tuple[float, float] | None) -> str:
    """By the side of no difference on which the interval of the schedule minus the row lies."""
    if interval is None or interval[0] <= 0 <= interval[1]:
        return "open"
    return "better" if interval[1] < 0 else "worse"


def errors_table(results: Results) -> Table:
    """A row for each that was trained with: mean, standard deviation and each seed, and the schedule's minus its."""
    schedule = results.rows[0].name
    rows = tuple(
        (
            row.name,
            percent(row.mean),
            percent(row.std),
            f"{len(row.seeds)}",
            "  ".join(f"{error:.2f}" for error in row.test_error_percent),
            "" if (found := row.schedule_minus_row) is None else points(found.mean, found.interval),
        )
        for row in results.rows
    )
    minus_this = f"{schedule} minus this, 95 % interval"
    return Table(("trained with", "mean", "std", "seeds", "each seed", minus_this), rows)


def losses_table(results: Results) -> Table | None:
    """A row for each, of test losses in nats; None where none was kept, as by older versions."""
    schedule = results.rows[0].name
    rows = tuple(
        (
            row.name,
            nats(loss.mean) + of_seeds(sum(one is not None for one in loss.nats), len(row.seeds)),
            nats(loss.std),
            "  ".join(map(nats, loss.nats)),
            "" if (found := loss.schedule_minus_row) is None else points(found.mean, found.interval, digits=3),
        )
        for row in results.rows
        if (loss := row.test_loss) is not None and any(one is not None for one in loss.nats)
    )
    headings = ("trained with", "mean loss", "std", "loss of each seed", f"{schedule} minus this, 95 % interval")
    return Table(headings, rows) if rows else None
