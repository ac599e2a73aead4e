"""Numbers and lists in words, intervals of means, and suggestions for misspelt names."""

import difflib
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

ALIKE = 0.75
"""Similarity from 0 to 1; less similar names are not suggested."""
CONFIDENCE = 0.95
LARGEST_COUNT = 10**9


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 seed`, `2,000 images`, `3 classes`. plural: by default the noun and an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def first_of(things: Sequence[str], most: int = 3) -> str:
    """`a, b, c and 4 more`."""
    shown = ", ".join(things[:most])
    return f"{shown} and {len(things) - most} more" if len(things) > most else shown


def percent(value: float | None) -> str:
    """`3.20 %`, or a dash for None."""
    return "-" if value is None else f"{value:.2f} %"


def distinct_percents(values: Sequence[float]) -> list[str]:
    """Percentages with one decimal, or with up to three if unequal ones look equal."""
    one, two, three = (
        [f"{value:.{digits}f} %" for value in values] for digits in (1, 2, 3)
    )
    n_different = len({*three})
    return next(texts for texts in (one, two, three) if len({*texts}) == n_different)


def size_of(number: float, digits: int) -> str:
    """The absolute value with so many decimals; `<0.1` instead of `0.0` if it is not 0."""
    text = f"{abs(number):.{digits}f}"
    return text if float(text) or not number else f"<{10**-digits:.{digits}f}"


def points(
    difference: float, interval: tuple[float, float] | None, digits: int = 2
) -> str:
    """`-0.52 (-0.93 to -0.11)`, in percentage points; in nats with three digits."""
    shown = (
        ""
        if interval is None
        else f" ({interval[0]:+z.{digits}f} to {interval[1]:+z.{digits}f})"
    )
    return f"{difference:+z.{digits}f}{shown}"


def duration(seconds: float) -> str:
    """`95 s`, `2.5 min`, `12 min`, `3.4 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = f"{seconds / 60:.{int(seconds < 600)}f}".removesuffix(".0")
    return f"{minutes} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """`unknown model 'resnet50'; did you mean resnet-50? Known: wrn-40-2, ...`"""
    names = list(known)
    return f"unknown {kind} {name!r}{listed(did_you_mean(name, names), 'known', names)}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean Rotate?` for `rotate`, two names for `flip`, which is in both;
    empty where none is similar.
    """
    by_form, asked = (
        {candidate.casefold(): candidate for candidate in reversed(list(known))},
        name.casefold(),
    )
    alike = difflib.get_close_matches(asked, by_form, n=1, cutoff=ALIKE)
    alike = (
        alike
        or [form for form in reversed(by_form) if len(asked) > 2 and asked in form][:3]
    )
    return (
        f"; did you mean {' or '.join(by_form[form] for form in alike)}?"
        if alike
        else ""
    )


def listed(meant: str, heading: str, names: Iterable[str]) -> str:
    """`; known: a, b`, or ` Known: a, b` after `; did you mean a?`."""
    return (
        f"{meant} {heading.capitalize()}: {', '.join(names)}"
        if meant
        else f"; {heading}: {', '.join(names)}"
    )


def number_of(found: Any, low: float, high: float) -> float | None:
    """A value of a provenance, which any program may have written, if it is a number in
    [low, high]; else None.
    """
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    return found if is_number and low <= found <= high else None


def count_of(found: Any, least: int = 0) -> int | None:
    """A value of a provenance if it is a whole number from `least` to LARGEST_COUNT;
    else None.
    """
    return (
        found
        if isinstance(found, int) and number_of(found, least, LARGEST_COUNT) is not None
        else None
    )


def interval_of_mean(values: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the mean of two or more independent numbers, by Student's t; of
    width 0 for equal numbers.
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
