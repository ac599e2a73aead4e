"""Dot plots, which are tables of the page: for each row, a number and its interval, on
a common scale and in words.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hba.algorithms.race_findings import RaceFindings
from hba.results.evaluation import EvaluationResult, Measure
from hba.results.statistics import PairedDifference
from hba.utils.text import counted, size_of


class Row(NamedTuple):
    """A row of a dot plot. number, low, high: on the scale. each: more numbers, as
    small dots. shown, words: its text.

    is_marked: whether the others are compared with this row, or it was chosen.
    """

    name: str
    number: float
    low: float
    high: float
    shown: str
    words: str = ""
    each: tuple[float, ...] = ()
    is_marked: bool = False


class Dots(NamedTuple):
    """A dot plot. heading: of the numbers. line: the number to compare with. low, high:
    the ends of the scale.
    """

    heading: str
    rows: tuple[Row, ...]
    line: float
    low: float
    high: float

    @staticmethod
    def of(rows: Sequence[Row], heading: str, line: float, least: float) -> "Dots":
        """Choose a scale for all numbers, at least `least` wide. Intervals may double
        its width on each side.
        """
        numbers = [line]
        for row in rows:
            numbers += [row.number, *row.each]
        width = max(max(numbers) - min(numbers), least)
        lowest = min([*numbers, *(row.low for row in rows)])
        highest = max([*numbers, *(row.high for row in rows)])
        low = max(min(numbers) - width, lowest) - 0.1 * width
        high = min(max(numbers) + width, highest) + 0.1 * width
        return Dots(heading, tuple(rows), line, low, high)

    @property
    def ticks(self) -> list[float]:
        """About five round numbers between the ends."""
        rough = (self.high - self.low) / 5
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(times * unit for times in (1, 2, 5, 10) if times * unit >= rough)
        first = math.ceil(self.low / step)
        last = math.floor(self.high / step)
        return [number * step for number in range(first, last + 1)]


def error_dots(
    results: EvaluationResult,
    measure: Measure = "test_error",
    linear: Sequence[Mapping[str, Any]] = (),
) -> Dots | None:
    """Mean errors: the first row, then the others from the lowest. Intervals are of the
    first row minus the others.

    measure: the test error, or the balanced accuracy, which is shown as the balanced
    error. linear: linear layers on frozen features, of which those with a test error
    get a row without an interval. None without a number.
    """
    is_error = measure == "test_error"
    errors = {
        row.name: {
            seed: value if is_error else 100 - value
            for seed, value in row.by_seed(measure).items()
        }
        for row in results.rows
    }
    first_name = results.rows[0].name
    first = errors[first_name]
    if not first:
        return None
    line = statistics.fmean(first.values())
    rows = []
    for name, of_row in errors.items():
        if not of_row:
            continue
        number = statistics.fmean(of_row.values())
        row = Row(
            name,
            number,
            low=number,
            high=number,
            shown=f"{number:.1f} %",
            each=tuple(of_row.values()) if len(of_row) > 1 else (),
            is_marked=name == first_name,
        )
        minus = PairedDifference.of(first, minus=of_row)
        if name != first_name and minus is not None:
            row = row._replace(words=f"{first_name} is {_in_words(minus)}")
            if minus.interval:
                # Around the line, so that a bar that does not cross the line means that
                # there is a difference.
                low, high = minus.interval
                row = row._replace(low=line - high, high=line - low)
        rows.append(row)
    for layer in linear:
        error = layer.get("test_percent" if is_error else "balanced_percent")
        if error is not None:
            words = (
                f"on frozen features of {layer['model']} at {layer['side']} pixels,"
                f" {layer['seconds']:.0f} s"
            )
            rows.append(
                Row("linear layer", error, error, error, f"{error:.1f} %", words)
            )
    ordered = [rows[0], *sorted(rows[1:], key=lambda row: row.number)]
    heading = "test error" if is_error else "balanced error"
    return Dots.of(ordered, heading, line, least=1.0)


def _in_words(difference: PairedDifference) -> str:
    """`2.1 points higher (0.4 to 3.8)`; if zero lies between the ends, each says
    `lower` or `higher`.
    """
    size = "equal"
    if difference.mean:
        direction = "higher" if difference.mean > 0 else "lower"
        size = f"{size_of(difference.mean, 1)} points {direction}"
    return f"{size} ({difference.between(1)})" if difference.interval else size


def race_dots(race: RaceFindings) -> dict[str, Dots]:
    """Dot plots of `symmetries` and `forks`, without empty ones.

    The chosen ones are marked. Bars are one standard error on each side.
    """
    plots = {}
    symmetries = _with_errors(race.symmetries, race.holding, "{:z.0f} %", scale=100)
    if symmetries:
        line = 100 * race.largest_gap
        plots["symmetries"] = Dots.of(symmetries, "lost", line, least=10.0)
    forks = _with_errors(race.forks, (race.winner,), "{:+z.3f}")
    if forks:
        plots["forks"] = Dots.of(forks, "change of the loss", 0.0, least=0.01)
    return plots


def _with_errors(
    measured: Mapping[str, tuple[float, float]],
    chosen: Sequence[str | None],
    form: str,
    scale: float = 1,
) -> list[Row]:
    """Rows of what a race has measured, without what is not finite.

    Args:
        measured: By name, a number and its standard error.
        chosen: Names of the rows to mark.
        form: The format of a number.
        scale: The factor of all numbers.
    """
    rows = []
    for name, (number, error) in measured.items():
        if math.isfinite(number + error):
            size = form.format(scale * error).removeprefix("+")
            rows.append(
                Row(
                    name,
                    scale * number,
                    low=scale * (number - error),
                    high=scale * (number + error),
                    shown=form.format(scale * number),
                    # Non-breaking spaces.
                    words=f"± {size}".replace(" ", "\xa0"),
                    is_marked=name in chosen,
                )
            )
    return rows


def contest_dots(rows: Sequence[Mapping[str, Any]], chosen: object) -> Dots | None:
    """Mean calibrated validation losses of a contest, from the lowest, with validation
    errors in words.
    """
    shown = []
    for row in rows:
        losses = [loss for loss in row["losses"].values() if math.isfinite(loss)]
        if not losses:
            continue
        words = ""
        if row["errors"]:
            error = statistics.fmean(row["errors"].values())
            words = f"validation error {error:.1f} %"
        n_seeds = row.get("dropped_after")
        if n_seeds is not None:
            words += f"; left out after {counted(n_seeds, 'seed')}"
        mean = statistics.fmean(losses)
        shown.append(
            Row(
                row["name"],
                mean,
                low=mean,
                high=mean,
                shown=f"{mean:.3f}",
                words=words,
                each=tuple(losses) if len(losses) > 1 else (),
                is_marked=row["name"] == chosen,
            )
        )
    if not shown:
        return None
    shown.sort(key=lambda row: row.number)
    return Dots.of(shown, "loss", shown[0].number, least=0.01)
