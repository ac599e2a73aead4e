"""What the magnitudes of a search space mean, as a table for people: the command, the README and the docs show it."""

from collections.abc import Sequence

from hba.operations import Operation
from hba.policy.space import SearchSpace

HEADINGS = ("operation", "magnitude", "unit", "no effect at", "also", "defined by")
LEGEND = (
    "sign: the magnitude is negated half of the time. nearest, bilinear: how pixels between pixels are found. "
    "fill: what is uncovered gets one colour, in a search the mean colour of the training images."
)


def magnitude_table(space: SearchSpace) -> list[tuple[str, ...]]:
    """One row per operation in the space's order, with the columns of HEADINGS; LEGEND explains `also`."""
    return [_row(operation) for operation in space.operations]


def _row(operation: Operation) -> tuple[str, ...]:
    also = (
        "sign" if operation.signed else None,
        operation.interpolation,
        "fill" if operation.uses_fill else None,
    )
    return (
        operation.name,
        "-" if operation.magnitude_range is None else "{:g} to {:g}".format(*operation.magnitude_range),
        operation.unit or "-",
        "-" if operation.identity is None else f"{operation.identity:g}",
        ", ".join(word for word in also if word) or "-",
        f"PIL {operation.pil}" if operation.pil else "your function",
    )


def as_markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, without the last line break."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
