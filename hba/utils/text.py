"""Numbers and lists in words, intervals of means, suggestions for misspelt names."""

import difflib
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

ALIKE = 0.75
"""Similarity from 0 to 1; less similar names are not suggested."""
CONFIDENCE = 0.95
LARGEST_COUNT = 10**9


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 seed`, `2,000 images`, `3 classes`.

    Args:
        number: How many there are.
        noun: In the singular.
        plural: By default the noun and an s.
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def first_of(items: Sequence[str], most: int = 3) -> str:
    """`a, b, c and 4 more`."""
    shown = ", ".join(items[:most])
    return f"{shown} and {len(items) - most} more" if len(items) > most else shown


def percent(value: float | None) -> str:
    """`3.20 %`, or a dash for None."""
    return "-" if value is None else f"{value:.2f} %"


def distinct_percents(values: Sequence[float]) -> list[str]:
    """Percentages with one decimal, or with up to three if unequal ones look equal."""
    tenths, hundredths, thousandths = (
        [f"{value:.{digits}f} %" for value in values] for digits in (1, 2, 3)
    )
    n_different = len({*thousandths})
    return next(
        texts
        for texts in (tenths, hundredths, thousandths)
        if len({*texts}) == n_different
    )


def size_of(number: float, digits: int) -> str:
    """The absolute value with so many decimals; `<0.1` for `0.0` if it is not 0."""
    shown = f"{abs(number):.{digits}f}"
    return shown if float(shown) or not number else f"<{10**-digits:.{digits}f}"


def points(
    difference: float, interval: tuple[float, float] | None, digits: int = 2
) -> str:
    """`-0.52 (-0.93 to -0.11)`, in percentage points; in nats with three digits."""
    shown = f"{difference:+z.{digits}f}"
    if interval is None:
        return shown
    low, high = interval
    return f"{shown} ({low:+z.{digits}f} to {high:+z.{digits}f})"


def duration(seconds: float) -> str:
    """`95 s`, `2.5 min`, `12 min`, `3.4 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds >= 7200:
        return f"{seconds / 3600:.1f} h"
    digits = 1 if seconds < 600 else 0
    minutes = f"{seconds / 60:.{digits}f}".removesuffix(".0")
    return f"{minutes} min"


def unknown(noun: str, name: str, choices: Iterable[str]) -> str:
    """`unknown model 'resnet50'; did you mean resnet-50? Known: wrn-40-2, ...`"""
    names = list(choices)
    return f"unknown {noun} {name!r}{listed(did_you_mean(name, names), 'known', names)}"


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """`; did you mean Rotate?` for `rotate`; empty where no name is similar.

    For `flip`, there are two names, which it is in.
    """
    by_form = {candidate.casefold(): candidate for candidate in reversed(list(choices))}
    asked = name.casefold()
    alike = difflib.get_close_matches(asked, by_form, n=1, cutoff=ALIKE)
    if not alike and len(asked) > 2:
        alike = [form for form in reversed(by_form) if asked in form][:3]
    if not alike:
        return ""
    suggestions = " or ".join(by_form[form] for form in alike)
    return f"; did you mean {suggestions}?"


def listed(meant: str, heading: str, names: Iterable[str]) -> str:
    """`; known: a, b`, or ` Known: a, b` after `; did you mean a?`."""
    start = f"{meant} {heading.capitalize()}" if meant else f"; {heading}"
    return f"{start}: {', '.join(names)}"


def number_of(value: Any, low: float, high: float) -> float | None:
    """A value of a provenance if it is a number in [low, high]; else None.

    Any program may have written the provenance.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and low <= value <= high else None


def count_of(value: Any, least: int = 0) -> int | None:
    """A value of a provenance if it is a whole number from `least` to LARGEST_COUNT;
    else None.
    """
    return (
        value
        if isinstance(value, int) and number_of(value, least, LARGEST_COUNT) is not None
        else None
    )


def interval_of_mean(values: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the mean of independent numbers, by Student's t.

    Args:
        values: Two or more numbers. Equal ones have an interval of width 0.
    """
    if max(values) == min(values):
        mean = statistics.fmean(values)
        return mean, mean
    # Loading it takes a while, and an import of hba should not.
    from scipy.stats import ttest_1samp

    interval = ttest_1samp(values, popmean=0.0).confidence_interval(CONFIDENCE)
    return float(interval.low), float(interval.high)


def as_markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, without the last line break."""
    return "\n".join(
        "| " + " | ".join(line) + " |"
        for line in [headings, ["---"] * len(headings), *rows]
    )
