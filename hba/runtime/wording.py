"""Numbers of things, and lists of them, in words."""

from collections.abc import Sequence


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 seed`, `2,000 images`, `3 classes`. plural: where it is not the noun and an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def size_of(n_bytes: int) -> str:
    """`2.5 GB`, `300.0 MB` or `0.8 kB`."""
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if n_bytes >= unit:
            return f"{n_bytes / unit:.1f} {name}"
    return f"{n_bytes / 1e3:.1f} kB"


def first_of(things: Sequence[str], most: int = 3) -> str:
    """`a, b, c and 4 more`: the first of them, and how many more there are."""
    shown = ", ".join(things[:most])
    return f"{shown} and {len(things) - most} more" if len(things) > most else shown


def percent(value: float | None) -> str:
    """`3.20 %`, or a dash where nothing was measured."""
    return "-" if value is None else f"{value:.2f} %"


def nats(value: float | None) -> str:
    """A loss: `0.123`, or a dash where nothing was measured."""
    return "-" if value is None else f"{value:.3f}"


def of_seeds(n_kept: int, n_seeds: int) -> str:
    """` (2 of 3 seeds)`, where a mean is over fewer seeds than there are."""
    return "" if n_kept in (0, n_seeds) else f" ({n_kept} of {counted(n_seeds, 'seed')})"


def points(difference: float, interval: tuple[float, float] | None, digits: int = 2) -> str:
    """`-0.52 (-0.93 to -0.11)`, in percentage points; in nats with three digits."""
    shown = "" if interval is None else f" ({interval[0]:+.{digits}f} to {interval[1]:+.{digits}f})"
    return f"{difference:+.{digits}f}{shown}"


def duration(seconds: float) -> str:
    """`95 s`, `12 min`, `3.4 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
