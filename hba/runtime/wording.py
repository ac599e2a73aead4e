"""Numbers of things, and lists of them, in words."""

from collections.abc import Sequence


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 seed`, `2,000 images`, `3 classes`. plural: where it is not the noun and an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def first_of(things: Sequence[str], most: int = 3) -> str:
    """`a, b, c and 4 more`: the first of them, and how many more there are."""
    shown = ", ".join(things[:most])
    return f"{shown} and {len(things) - most} more" if len(things) > most else shown
