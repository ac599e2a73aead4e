"""Lengths of time as they are typed."""

import re

import click

NUMBER = r"(\d+(?:\.\d+)?)"
PARTS = re.compile(f"(?:{NUMBER}h)?(?:{NUMBER}m)?(?:{NUMBER}s)?", re.ASCII)


def duration(given: str) -> float:
    """Seconds of `90s`, `20m` or `1h30m`. A number without its unit is refused: nobody knows which it would be."""
    found = PARTS.fullmatch(given)
    hours, minutes, seconds = (float(part or 0) for part in found.groups()) if found else (0.0, 0.0, 0.0)
    total = 3600 * hours + 60 * minutes + seconds
    if total <= 0:
        raise click.BadParameter(f"{given!r} is not a time with its units, such as 90s, 20m or 1h30m.")
    return total
