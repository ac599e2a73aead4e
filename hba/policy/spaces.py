"""Search spaces by name, and what their magnitudes mean, as a table for people."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from hba.errors import SettingsError
from hba.operations import ALL, OPERATIONS, Operation, find_operation
from hba.policy.space import SearchSpace
from hba.regularization.regularizer import Hyperparameter
from hba.utils.text import unknown

PBA_SIDE_PIXELS = 32
"""PBA states translations and Cutout in pixels of images of this side."""

PBA_RANGES: Mapping[str, tuple[float, float] | None] = MappingProxyType(
    {
        "Rotate": (0.0, 30.0),
        "TranslateX": (0.0, 10 / PBA_SIDE_PIXELS),
        "TranslateY": (0.0, 10 / PBA_SIDE_PIXELS),
        "Brightness": (0.1, 1.9),
        "Color": (0.1, 1.9),
        "Invert": None,
        "Sharpness": (0.1, 1.9),
        "Posterize": (4.0, 0.0),
        "ShearX": (0.0, 0.3),
        "Solarize": (256.0, 0.0),
        "ShearY": (0.0, 0.3),
        "Equalize": None,
        "AutoContrast": None,
        "Cutout": (0.0, 20 / PBA_SIDE_PIXELS),
        "Contrast": (0.1, 1.9),
    }
)
"""PBA's operations in its own order, with the magnitudes at its levels 0 and 10 (Ho et al. 2019, published code)."""

SPACES: Mapping[str, SearchSpace] = MappingProxyType(
    {
        "hba": SearchSpace(),
        "pba": SearchSpace(
            tuple(OPERATIONS[name].with_range(magnitude_range) for name, magnitude_range in PBA_RANGES.items())
        ),
    }
)
"""`hba`: Table 9 of the paper. `pba`: the ranges and directions of Population Based Augmentation."""


def find_space(name: str) -> SearchSpace:
    """The search space of that exact name; SettingsError with the known names otherwise."""
    if name not in SPACES:
        raise SettingsError(unknown("search space", name, SPACES))
    return SPACES[name]


SEARCHED_COUNT = (0.2, 0.3, 0.4, 0.1)
"""Of 0, 1, 2 and 3 operations, where a search for it begins, unless it begins at RandAugment's."""


def search_space(
    name: str = "hba",
    operations: Iterable[str] | None = None,
    interpolation: str = "nearest",
    searches_count: bool = False,
    regularizers: tuple[Hyperparameter, ...] = (),
) -> SearchSpace:
    """A named space, or one over some of its operations, and over registered ones, in the order given.

    operations: names; `all` stands for those of the named space; None is all of them. interpolation: nearest or
    bilinear, of the operations that move pixels. searches_count: how many operations an image gets is any distribution
    over 0 to 3, or to as many as there are slots. regularizers: what is tuned beside the operations.
    """
    space = find_space(name)
    chosen: list[Operation] = []
    own = {operation.name: operation for operation in space.operations}
    for wanted in [ALL] if operations is None else operations:
        chosen += own.values() if wanted == ALL else [own[wanted] if wanted in own else find_operation(wanted)]
    return SearchSpace(
        tuple(operation.with_interpolation(interpolation) for operation in chosen),
        space.copies,
        _searched_count(len(chosen) * space.copies) if searches_count else space.count_probabilities,
        searches_count,
        regularizers,
    )


def without_operations(regularizers: tuple[Hyperparameter, ...]) -> SearchSpace:
    """A space of regularizers alone."""
    return SearchSpace((), count_probabilities=(1.0,), regularizers=regularizers)


def _searched_count(n_slots: int) -> tuple[float, ...]:
    """Of up to so many slots; what is wanted of more goes to the last."""
    most = min(n_slots, len(SEARCHED_COUNT) - 1)
    return (*SEARCHED_COUNT[:most], sum(SEARCHED_COUNT[most:]))


HEADINGS = ("operation", "magnitude", "unit", "no effect at", "also", "defined by")
LEGEND = (
    "sign: the magnitude is negated half of the time. nearest, bilinear: the interpolation between pixels. "
    "fill: uncovered pixels get one colour, in a search the mean colour of the training images."
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
