"""The schedule file: human-readable JSON, which is checked strictly.

This module handles the parts of a schedule; the class Schedule reads and writes its
file through it. `python -m hba.schedule.file > docs/schedule.schema.json` writes the
JSON schema.
"""

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pydantic
from pydantic import Field

from hba.errors import HbaError, ScheduleError, SettingsError
from hba.operations import Operation, find_operation
from hba.operations.operation import WALK
from hba.operations.registration import function_path
from hba.policy.class_moves import ClassMoves
from hba.policy.space import SearchSpace
from hba.regularization.groups import find_regularizer
from hba.regularization.regularizer import Hyperparameter
from hba.utils.files import reason_of
from hba.utils.settings import first_problem

MALFORMED = (
    HbaError,
    OSError,
    ValueError,
    TypeError,
    KeyError,
    SyntaxError,
    MemoryError,
    RecursionError,
)
"""Errors that reading a malformed file can raise."""

VERSION = 1
"""The version of the format, the only one that is read."""


class _Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False
    )


class OperationEntry(_Strict):
    """One operation. drawing: how the magnitude of an image is drawn from that of the
    policy (hba/operations/drawing.py). identity: the magnitude with which an image does
    not change, which tells the direction of the others.

    interpolation: of an operation that moves pixels; nearest where it is absent.
    function: `module:name` of an operation that is not one of hba's, so that a person
    can find it. stage: when it is applied.
    """

    name: str
    magnitude_range: Annotated[list[float], Field(min_length=2, max_length=2)] | None
    unit: str | None
    identity: float | None
    drawing: Literal["fixed", "sign", "around", "up to"]
    interpolation: Literal["nearest", "bilinear"] = "nearest"
    function: str | None = None
    stage: Literal["symmetry", "crop", "walk", "photometric", "erasing", "mixing"] = (
        "walk"
    )


class RegularizerEntry(_Strict):
    """One hyperparameter of hba.regularization, with the fields of Hyperparameter."""

    name: str
    low: float
    high: float
    initial: float
    scale: Literal["linear", "log"]
    whole: bool
    unit: str | None


class ClassMovesEntry(_Strict):
    """Symmetries by class. classes: their names, in the order of the labels. results:
    for each operation and each of its moves, the class of moved images by the class of
    the images; those of classes that are absent must not be moved.
    """

    classes: list[str]
    results: dict[str, list[dict[str, str]]]


class SpaceEntry(_Strict):
    operations: list[OperationEntry]
    copies: int
    count_probabilities: list[float]
    searches_count: bool
    regularizers: list[RegularizerEntry] = []
    class_moves: ClassMovesEntry | None = None


class ScheduleFile(_Strict):
    """spread: one number where it is the same everywhere, else rows like those of the
    values, or a single row.
    """

    format: Literal["hba-schedule"]
    version: Literal[1]
    space: SpaceEntry
    fill: list[float]
    hyperparameters: list[str]
    epochs: int
    values: list[list[float]]
    spread: list[list[float]] | float
    provenance: dict[str, Any]


def written(
    space: SearchSpace,
    values: np.ndarray,
    fill: tuple[float, ...],
    provenance: Mapping[str, Any],
    spread: np.ndarray,
) -> str:
    """The text of a schedule's file. values, spread: (epochs, n)."""
    head = {
        "format": "hba-schedule",
        "version": VERSION,
        "space": {**space_entry(space), "searches_count": space.searches_count},
        "fill": list(fill),
        "hyperparameters": list(space.names),
        "epochs": len(values),
    }
    if (spread == spread.flat[0]).all():
        spread_text = json.dumps(spread.flat[0])
    else:
        spread_text = _rows(spread[:1] if (spread == spread[0]).all() else spread)
    tail = {"provenance": dict(provenance)}
    rows = f',\n  "values": {_rows(values)},\n  "spread": {spread_text},'
    return (
        json.dumps(head, indent=2)[:-2] + rows + json.dumps(tail, indent=2)[1:] + "\n"
    )


def _rows(rows: np.ndarray) -> str:
    """Write one line per epoch, so that you can compare two schedules line by line."""
    return (
        "[\n    " + ",\n    ".join(json.dumps(row) for row in rows.tolist()) + "\n  ]"
    )


def space_entry(space: SearchSpace) -> dict[str, Any]:
    """A search space as JSON values; `searches_count`, `regularizers` and
    `class_moves` only if they are in use.
    """
    entry: dict[str, Any] = {
        "operations": [_operation_entry(operation) for operation in space.operations],
        "copies": space.copies,
        "count_probabilities": list(space.count_probabilities),
    }
    if space.searches_count:
        entry["searches_count"] = True
    if space.regularizers:
        entry["regularizers"] = [
            dataclasses.asdict(hyperparameter) for hyperparameter in space.regularizers
        ]
    if space.class_moves:
        entry["class_moves"] = {
            "classes": list(space.class_moves.class_names),
            "results": space.class_moves.names(),
        }
    return entry


def _operation_entry(operation: Operation) -> dict[str, Any]:
    ends = operation.magnitude_range
    entry: dict[str, Any] = {
        "name": operation.name,
        "magnitude_range": None if ends is None else list(ends),
        "unit": operation.unit,
        "identity": operation.identity,
        "drawing": operation.drawing,
    }
    if operation.interpolation == "bilinear":
        entry["interpolation"] = "bilinear"
    function = function_path(operation)
    if function is not None:
        entry["function"] = function
    if operation.stage != WALK:
        entry["stage"] = operation.stage
    return entry


@contextlib.contextmanager
def reading(path: Path, content: str = "schedule") -> Iterator[None]:
    """Raise errors in a file or its content as a ScheduleError that names the file.
    content: what it should contain.
    """
    try:
        yield
    except MALFORMED as error:
        raise ScheduleError(
            f"{path} cannot be read as a {content}: {problem_of(error)}"
        ) from None


def problem_of(error: Exception) -> str:
    """The reason for one of the errors in MALFORMED, in one line."""
    return (
        first_problem(error)
        if isinstance(error, pydantic.ValidationError)
        else reason_of(error)
    )


def parse(text: str) -> dict[str, Any]:
    """The content of a file as arguments of Schedule.

    Raises:
        Exception: One of MALFORMED, if the file breaks the format.
    """
    file = ScheduleFile.model_validate(json.loads(text))
    n_walk = sum(entry.stage == WALK for entry in file.space.operations)
    if file.space.copies * n_walk > len(file.hyperparameters):
        # Check before making the space, which takes long for a million copies.
        raise ScheduleError("hyperparameters must name every copy of every operation")
    space = SearchSpace(
        tuple(map(_operation, file.space.operations)),
        file.space.copies,
        tuple(file.space.count_probabilities),
        file.space.searches_count,
        tuple(
            Hyperparameter(**entry.model_dump()) for entry in file.space.regularizers
        ),
        class_moves=_class_moves(file.space.class_moves),
    )
    for hyperparameter in space.regularizers:
        find_regularizer(hyperparameter.group)
    if file.hyperparameters != list(space.names):
        raise ScheduleError(
            f"hyperparameters must be the space's {space.n} names, {space.names[0]}"
            " first"
        )
    if file.epochs != len(file.values):
        raise ScheduleError(
            f"epochs is {file.epochs}, but values has {len(file.values)} rows"
        )
    return {
        "space": space,
        "values": np.array(file.values, dtype=np.float64),
        "fill": tuple(file.fill),
        "provenance": file.provenance,
        "spread": np.array(file.spread, dtype=np.float64),
    }


def _class_moves(entry: ClassMovesEntry | None) -> ClassMoves | None:
    if entry is None:
        return None
    return ClassMoves.from_names(tuple(entry.classes), entry.results)


def _operation(row: OperationEntry) -> Operation:
    """The operation of an entry, with the range in the file. Any other difference in
    meaning is an error.
    """
    remedy = (
        f"; register {row.function or 'your own'} with hba.register_operation"
        " (commands: --operations-file FILE.py)"
    )
    try:
        operation = find_operation(row.name).with_interpolation(row.interpolation)
    except SettingsError as error:
        raise ScheduleError(f"{error}{remedy}") from None
    entry = _operation_entry(operation)
    if row.function is not None and "function" not in entry:
        raise ScheduleError(f"operation {row.name} is not hba's own{remedy}")
    # A function may have moved, and the file has its own range.
    excluded = {"magnitude_range", "function"}
    expected = OperationEntry(**entry).model_dump(exclude=excluded)
    has_range = row.magnitude_range is not None
    if (
        row.model_dump(exclude=excluded) != expected
        or (operation.magnitude_range is not None) != has_range
    ):
        raise ScheduleError(f"operation {row.name} must be like {json.dumps(entry)}")
    if row.magnitude_range is None:
        return operation
    first, last = row.magnitude_range
    return operation.with_range((first, last))


def json_schema() -> dict[str, Any]:
    """The JSON schema: keys, types, choices. Schedule.load checks shapes and ranges."""
    return {
        **ScheduleFile.model_json_schema(),
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A schedule of hba",
    }


if __name__ == "__main__":
    print(json.dumps(json_schema(), indent=2))
