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
        numbers = [
            *(one.number for one in rows),
            *(other for one in rows for other in one.each),
            line,
        ]
        width = max(max(numbers) - min(numbers), least)
        low = (
            max(min(numbers) - width, min([*numbers, *(one.low for one in rows)]))
            - 0.1 * width
        )
        high = (
            min(max(numbers) + width, max([*numbers, *(one.high for one in rows)]))
            + 0.1 * width
        )
        return Dots(heading, tuple(rows), line, low, high)

    @property
    def ticks(self) -> list[float]:
        """About five round numbers between the ends."""
        rough = (self.high - self.low) / 5
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(times * unit for times in (1, 2, 5, 10) if times * unit >= rough)
        return [
            number * step
            for number in range(
                math.ceil(self.low / step), math.floor(self.high / step) + 1
            )
        ]


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
    sign, base = (1, 0) if measure == "test_error" else (-1, 100)
    errors = {
        row.name: {
            seed: base + sign * value for seed, value in row.by_seed(measure).items()
        }
        for row in results.rows
    }
    first = errors[results.rows[0].name]
    if not first:
        return None
    line, rows = statistics.fmean(first.values()), []
    for name, of_row in errors.items():
        if of_row:
            number = statistics.fmean(of_row.values())
            minus = (
                None if of_row is first else PairedDifference.of(first, minus=of_row)
            )
            # Around the line, so that a bar that does not cross the line means that
            # there is a difference.
            high, low = (
                (line - end for end in minus.interval)
                if minus and minus.interval
                else (number, number)
            )
            each = tuple(of_row.values()) if len(of_row) > 1 else ()
            words = (
                "" if minus is None else f"{results.rows[0].name} is {_in_words(minus)}"
            )
            rows.append(
                Row(
                    name,
                    number,
                    low,
                    high,
                    f"{number:.1f} %",
                    words,
                    each,
                    of_row is first,
                )
            )
    for one in linear:
        if (
            error := one.get("balanced_percent" if base else "test_percent")
        ) is not None:
            words = (
                f"on frozen features of {one['model']} at {one['side']} pixels,"
                f" {one['seconds']:.0f} s"
            )
            rows.append(
                Row("linear layer", error, error, error, f"{error:.1f} %", words)
            )
    ordered = [rows[0], *sorted(rows[1:], key=lambda one: one.number)]
    return Dots.of(ordered, "balanced error" if base else "test error", line, least=1.0)


def _in_words(found: PairedDifference) -> str:
    """`2.1 points higher (0.4 to 3.8)`; if zero lies between the ends, each says
    `lower` or `higher`.
    """
    size = "equal"
    if found.mean:
        size = (
            f"{size_of(found.mean, 1)} points {'higher' if found.mean > 0 else 'lower'}"
        )
    return f"{size} ({found.between(1)})" if found.interval else size


def race_dots(found: RaceFindings) -> dict[str, Dots]:
    """Dot plots of symmetries and forks, with the chosen ones marked. Bars are one
    standard error on each side.
    """
    made = {}
    for kind, measured, taken, scale, form, heading, line, least in (
        (
            "symmetries",
            found.symmetries,
            found.taken,
            100,
            "{:z.0f} %",
            "lost",
            100 * found.largest_gap,
            10.0,
        ),
        (
            "forks",
            found.forks,
            (found.winner,),
            1,
            "{:+z.3f}",
            "change, nats",
            0.0,
            0.01,
        ),
    ):
        rows = []
        for name, (number, error) in measured.items():
            if math.isfinite(number + error):
                ends = (scale * (number - error), scale * (number + error))
                # Non-breaking spaces.
                words = f"± {form.format(scale * error).removeprefix('+')}".replace(
                    " ", "\xa0"
                )
                shown = form.format(scale * number)
                rows.append(
                    Row(
                        name,
                        scale * number,
                        *ends,
                        shown,
                        words,
                        is_marked=name in taken,
                    )
                )
        if rows:
            made[kind] = Dots.of(rows, heading, line, least)
    return made


def contest_dots(rows: Sequence[Mapping[str, Any]], chosen: object) -> Dots | None:
    """Mean calibrated validation losses of a contest, from the lowest, with validation
    errors in words.
    """
    found = []
    for row in rows:
        losses = [loss for loss in row["losses"].values() if math.isfinite(loss)]
        errors, after = [*row["errors"].values()], row.get("dropped_after")
        if losses:
            words = (
                f"validation error {statistics.fmean(errors):.1f} %" if errors else ""
            )
            words += (
                "" if after is None else f"; left out after {counted(after, 'seed')}"
            )
            mean, each = (
                statistics.fmean(losses),
                (tuple(losses) if len(losses) > 1 else ()),
            )
            found.append(
                Row(
                    row["name"],
                    mean,
                    mean,
                    mean,
                    f"{mean:.3f}",
                    words,
                    each,
                    row["name"] == chosen,
                )
            )
    found.sort(key=lambda one: one.number)
    return Dots.of(found, "loss, nats", found[0].number, least=0.01) if found else None
