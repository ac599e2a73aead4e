"""The schedule file: JSON that a person can read, checked strictly.

Version 3 has regularizers beside the operations. A schedule without regularizers is written as version 2, so that an
earlier hba reads it too. Version 1 had no spread and could not search K; `_migrated` brings it up to date.

This module knows the parts of a schedule, not the class: Schedule reads and writes its file through it.
`python -m hba.schedule.file > docs/schedule.schema.json` publishes the JSON schema.
"""

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pydantic
from pydantic import Field

from hba.errors import HbaError, ScheduleError, SettingsError
from hba.operations import Operation, find_operation, function_path
from hba.policy.space import SearchSpace
from hba.regularization.groups import find_regularizer
from hba.regularization.regularizer import Hyperparameter
from hba.utils.files import reason_of
from hba.utils.settings import first_problem

FORMAT = "hba-schedule"
VERSIONS = (1, 2, 3)

MALFORMED = (HbaError, OSError, ValueError, TypeError, KeyError, SyntaxError, MemoryError, RecursionError)
"""What reading a file raises that is not what it should be."""

Rows = list[list[float]]


class _Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class OperationEntry(_Strict):
    """One operation. identity: the magnitude that changes nothing, which tells the direction of the others.

    interpolation: of an operation that moves pixels; nearest where it is absent. function: `module:name` of an
    operation that is not one of hba's, so that a person can find it.
    """

    name: str
    magnitude_range: Annotated[list[float], Field(min_length=2, max_length=2)] | None
    unit: str | None
    identity: float | None
    signed: bool
    interpolation: Literal["nearest", "bilinear"] | None = None
    function: str | None = None


class RegularizerEntry(_Strict):
    """One hyperparameter of hba.regularization, with the fields of Hyperparameter."""

    name: str
    low: float
    high: float
    initial: float
    scale: Literal["linear", "log"]
    whole: bool
    unit: str | None


class SpaceEntry(_Strict):
    operations: list[OperationEntry]
    copies: int
    count_probabilities: list[float]
    searches_count: bool
    regularizers: list[RegularizerEntry] = []


class ScheduleFile(_Strict):
    """spread: one number where it is the same everywhere, else rows like those of the values, or a single row."""

    format: Literal["hba-schedule"]
    version: Literal[2, 3]
    space: SpaceEntry
    fill: list[float]
    hyperparameters: list[str]
    epochs: int
    values: Rows
    spread: Rows | float
    provenance: dict[str, Any]


class Parts(NamedTuple):
    """The content of a file; values of shape (epochs, n), fill and provenance as in Schedule.

    spread: of shape (), (1, n) or (epochs, n).
    """

    space: SearchSpace
    values: np.ndarray
    fill: tuple[float, ...]
    provenance: Mapping[str, Any]
    spread: np.ndarray


def written(parts: Parts) -> str:
    """The text of a file that holds these parts."""
    head = {
        "format": FORMAT,
        "version": 3 if parts.space.regularizers else 2,
        "space": {**space_entry(parts.space), "searches_count": parts.space.searches_count},
        "fill": list(parts.fill),
        "hyperparameters": list(parts.space.names),
        "epochs": len(parts.values),
    }
    tail = {"provenance": dict(parts.provenance)}
    rows = f',\n  "values": {_rows(parts.values)},\n  "spread": {_spread_text(parts.spread)},'
    return json.dumps(head, indent=2)[:-2] + rows + json.dumps(tail, indent=2)[1:] + "\n"


def _spread_text(spread: np.ndarray) -> str:
    if (spread == spread.flat[0]).all():
        return json.dumps(spread.flat[0])
    return _rows(spread[:1] if (spread == spread[0]).all() else spread)


def _rows(rows: np.ndarray) -> str:
    """One line per epoch, so that two schedules can be compared line by line."""
    return "[\n    " + ",\n    ".join(json.dumps(row) for row in rows.tolist()) + "\n  ]"


def space_entry(space: SearchSpace) -> dict[str, Any]:
    """A search space as JSON values; `searches_count` and `regularizers` only where they say something."""
    return {
        "operations": [_written_operation(operation) for operation in space.operations],
        "copies": space.copies,
        "count_probabilities": list(space.count_probabilities),
        **({"searches_count": True} if space.searches_count else {}),
        **({"regularizers": [dataclasses.asdict(one) for one in space.regularizers]} if space.regularizers else {}),
    }


def _written_operation(operation: Operation) -> dict[str, Any]:
    """The keys that every operation has, and of interpolation and function those that say something."""
    entry = _operation_entry(operation)
    return entry.model_dump(exclude={name for name in ("interpolation", "function") if getattr(entry, name) is None})


def _operation_entry(operation: Operation) -> OperationEntry:
    return OperationEntry(
        name=operation.name,
        magnitude_range=None if operation.magnitude_range is None else list(operation.magnitude_range),
        unit=operation.unit,
        identity=operation.identity,
        signed=operation.signed,
        interpolation="bilinear" if operation.interpolation == "bilinear" else None,
        function=function_path(operation),
    )


@contextlib.contextmanager
def reading(path: Path, kind: str = "schedule") -> Iterator[None]:
    """Turn what is wrong with a file, or with its content, into a ScheduleError that names the file.

    kind: of what the file should hold.
    """
    try:
        yield
    except FileNotFoundError:
        raise ScheduleError(f"no {kind} file {path}") from None
    except MALFORMED as error:
        raise ScheduleError(f"{path} cannot be read as a {kind}: {problem_of(error)}") from None


def problem_of(error: Exception) -> str:
    """One line about an error of MALFORMED."""
    return first_problem(error) if isinstance(error, pydantic.ValidationError) else reason_of(error)


def parse(text: str) -> Parts:
    """The content of a file; ScheduleError names the first place that breaks the format.

    Whether values and spread have the right shape and lie in their ranges is checked by Schedule.
    """
    try:
        file = ScheduleFile.model_validate(_migrated(_read_json(text)))
    except pydantic.ValidationError as error:
        raise ScheduleError(first_problem(error)) from None
    if file.space.copies * len(file.space.operations) > len(file.hyperparameters):
        # Refused before the space is made, which takes long for a million copies.
        raise ScheduleError("hyperparameters must name every copy of every operation")
    try:
        space = _space(file.space)
    except SettingsError as error:
        raise ScheduleError(f"space: {error}") from None
    if file.hyperparameters != list(space.names):
        raise ScheduleError(f"hyperparameters must be the space's {space.n} names, {space.names[0]} first")
    if file.epochs != len(file.values):
        raise ScheduleError(f"epochs is {file.epochs}, but values has {len(file.values)} rows")
    try:
        values, spread = (np.array(rows, dtype=np.float64) for rows in (file.values, file.spread))
    except ValueError:
        raise ScheduleError(f"values and spread must have {space.n} numbers in each row") from None
    return Parts(space, values, tuple(file.fill), file.provenance, spread)


def _read_json(text: str) -> dict[str, Any]:
    """The content of a file that says it is a schedule of a known version."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ScheduleError(f"not JSON that can be read ({error})") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ScheduleError(f'the key "format" must be "{FORMAT}"')
    version = content.get("version")
    if version not in VERSIONS or isinstance(version, bool):
        raise ScheduleError(f"version must be 1, 2 or 3, got {version!r}; a newer hba may have written it")
    return content


def _migrated(content: dict[str, Any]) -> dict[str, Any]:
    """The content as version 2 or 3."""
    if content["version"] != 1 or not isinstance(content.get("space"), dict):
        return content
    return {"spread": 0.0, **content, "version": 2, "space": {"searches_count": False, **content["space"]}}


def _space(entry: SpaceEntry) -> SearchSpace:
    return SearchSpace(
        tuple(_operation(row, f"space.operations[{number}]") for number, row in enumerate(entry.operations)),
        entry.copies,
        tuple(entry.count_probabilities),
        entry.searches_count,
        tuple(_hyperparameter(row, f"space.regularizers[{number}]") for number, row in enumerate(entry.regularizers)),
    )


def _hyperparameter(row: RegularizerEntry, place: str) -> Hyperparameter:
    """The hyperparameter of a row, with the file's range; its group must be known."""
    try:
        found = Hyperparameter(**row.model_dump())
        find_regularizer(found.group)
    except SettingsError as error:
        raise ScheduleError(
            f"{place}: {error}; register your own with hba.register_regularizer (commands: --operations-file FILE.py)"
        ) from None
    return found


def _operation(row: OperationEntry, place: str) -> Operation:
    """The operation of a row, with the file's range; any other difference in meaning is refused."""
    try:
        known = find_operation(row.name).with_interpolation(row.interpolation or "nearest")
    except SettingsError as error:
        how = "hba.register_operation (commands: --operations-file FILE.py)"
        own = "" if row.function is None else f"; register the function {row.function} first with {how}"
        raise ScheduleError(f"{place}: {error}{own}") from None
    if _meaning(_operation_entry(known)) != _meaning(row):
        raise ScheduleError(f"{place} must be like {json.dumps(_written_operation(known))}, got {row!r}")
    return known if row.magnitude_range is None else known.with_range((row.magnitude_range[0], row.magnitude_range[1]))


def _meaning(entry: OperationEntry) -> tuple[Any, ...]:
    """What makes a magnitude mean the same: not the range, nor the path of a function, which may have moved."""
    is_bilinear, has_magnitude = entry.interpolation == "bilinear", entry.magnitude_range is not None
    return entry.unit, entry.identity, entry.signed, is_bilinear, has_magnitude


def json_schema() -> dict[str, Any]:
    """The JSON schema of versions 2 and 3: keys, types and choices. Shapes and ranges are checked by Schedule.load."""
    title = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A schedule of hba"}
    return {**ScheduleFile.model_json_schema(), **title}


if __name__ == "__main__":
    print(json.dumps(json_schema(), indent=2))
