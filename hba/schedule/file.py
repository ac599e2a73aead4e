"""The schedule file: JSON that a person can read, checked strictly.

Version 3 has regularizers beside the operations. A schedule without regularizers is written as version 2, so that an
earlier hba reads it too. Version 1 had no spread and could not search K; `_migrated` brings it up to date.

This module knows the parts of a schedule, not the class: Schedule reads and writes its file through it.
`python -m hba.schedule.file > docs/schedule.schema.json` publishes the JSON schema.
"""

import contextlib
import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pydantic
from pydantic import Field

from hba.errors import HbaError, ScheduleError, SettingsError
from hba.operations import OPERATIONS, Operation, find_operation, function_path
from hba.policy.space import SearchSpace
from hba.regularization.groups import check_range, find_regularizer
from hba.regularization.regularizer import Hyperparameter
from hba.utils.files import read_text, reason_of
from hba.utils.settings import first_problem

FORMAT = "hba-schedule"
VERSIONS = (1, 2, 3)
"""The versions that can be read."""

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
        "operations": [_operation_entry(operation) for operation in space.operations],
        "copies": space.copies,
        "count_probabilities": list(space.count_probabilities),
        **({"searches_count": True} if space.searches_count else {}),
        **({"regularizers": [dataclasses.asdict(one) for one in space.regularizers]} if space.regularizers else {}),
    }


def _operation_entry(operation: Operation) -> dict[str, Any]:
    """The keys that every operation has, and of the others those that say something."""
    entry = OperationEntry(
        name=operation.name,
        magnitude_range=None if operation.magnitude_range is None else list(operation.magnitude_range),
        unit=operation.unit,
        identity=operation.identity,
        signed=operation.signed,
        interpolation="bilinear" if operation.interpolation == "bilinear" else None,
        function=function_path(operation),
    )
    return entry.model_dump(exclude={name for name in ("interpolation", "function") if getattr(entry, name) is None})


def text_of(path: Path, kind: str = "schedule") -> str:
    """The text of a file that should hold a schedule of a kind; ScheduleError where it cannot be read."""
    try:
        return read_text(path)
    except FileNotFoundError:
        raise ScheduleError(f"no {kind} file {path}") from None
    except (OSError, ValueError) as error:
        raise ScheduleError(f"{path} cannot be read as a {kind}: {reason_of(error)}; give another file") from None


@contextlib.contextmanager
def explained(path: Path, kind: str = "schedule") -> Iterator[None]:
    """Turn an HbaError about the content of a file into a ScheduleError that names the file."""
    try:
        yield
    except HbaError as error:
        raise ScheduleError(f"{path} is not a valid {kind}: {error}") from None


def parse(text: str) -> Parts:
    """The content of a file; ScheduleError names the first place that breaks the format.

    Whether values and spread lie in their ranges is checked by Schedule.
    """
    try:
        file = ScheduleFile.model_validate(_migrated(_read_json(text)))
    except pydantic.ValidationError as error:
        raise ScheduleError(first_problem(error)) from None
    n_named = len(file.hyperparameters)
    if file.space.copies * len(file.space.operations) > n_named:
        # Refused before the space is made, which takes long for a million copies.
        raise ScheduleError(f"hyperparameters must name every copy of every operation, got {n_named} names")
    try:
        space = _space(file.space)
    except SettingsError as error:
        raise ScheduleError(f"space: {error}") from None
    _check_shape(file, space)
    values = np.array(file.values, dtype=np.float64).reshape(len(file.values), space.n)
    return Parts(space, values, tuple(file.fill), file.provenance, np.array(file.spread, dtype=np.float64))


def _read_json(text: str) -> dict[str, Any]:
    """The content of a file that says it is a schedule of a known version."""
    try:
        content = json.loads(text, object_pairs_hook=_unique_keys)
    except json.JSONDecodeError as error:
        raise ScheduleError(f"not JSON ({error.msg} in line {error.lineno})") from None
    except RecursionError:
        raise ScheduleError("not JSON that can be read (it is nested too deeply)") from None
    except ValueError as error:
        raise ScheduleError(f"not JSON that can be read ({error})") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ScheduleError(f'the key "format" must be "{FORMAT}"')
    version = content.get("version")
    if version not in VERSIONS or isinstance(version, bool):
        raise ScheduleError(f"version must be 1, 2 or 3, got {version!r}; a newer hba may have written it")
    return content


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A mapping of the file; ValueError for a duplicate key, because one of the two would be ignored."""
    found = dict(pairs)
    if len(found) < len(pairs):
        duplicate = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {duplicate!r} stands twice in a mapping")
    return found


def _migrated(content: dict[str, Any]) -> dict[str, Any]:
    """The content as version 2 or 3."""
    if content["version"] != 1 or not isinstance(content.get("space"), dict):
        return content
    return {"spread": 0.0, **content, "version": 2, "space": {"searches_count": False, **content["space"]}}


def _check_shape(file: ScheduleFile, space: SearchSpace) -> None:
    if file.hyperparameters != list(space.names):
        raise ScheduleError(
            f"hyperparameters must be the space's {space.n} names in their order, {space.names[0]} first"
        )
    if file.epochs != len(file.values):
        raise ScheduleError(f"epochs is {file.epochs}, but values has {len(file.values)} rows")
    _check_rows("values", file.values, space)
    if isinstance(file.spread, list):
        if len(file.spread) not in (1, file.epochs):
            raise ScheduleError(f"spread must be a number, or have {file.epochs} rows or one, got {len(file.spread)}")
        _check_rows("spread", file.spread, space)


def _check_rows(name: str, rows: Sequence[Sequence[float]], space: SearchSpace) -> None:
    for number, row in enumerate(rows):
        if len(row) != space.n:
            raise ScheduleError(f"{name}[{number}] must have {space.n} numbers, got {len(row)}")


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
        check_range(found)
    except SettingsError as error:
        raise ScheduleError(
            f"{place}: {error}; register a regularizer of your own with hba.register_regularizer before loading the "
            "schedule (commands: --operations-file FILE.py)"
        ) from None
    return found


def _operation(row: OperationEntry, place: str) -> Operation:
    """The operation of a row, with the file's range; any other difference in meaning is refused."""
    try:
        known = find_operation(row.name).with_interpolation(row.interpolation or "nearest")
    except SettingsError as error:
        if row.function is None:
            raise ScheduleError(f"{place}: {error}") from None
        raise ScheduleError(
            f"{place} is {row.name}, which is not one of hba's operations but the function {row.function}: register it "
            "with hba.register_operation before loading the schedule (commands: --operations-file FILE.py)"
        ) from None
    if row.function is not None and row.name in OPERATIONS:
        raise ScheduleError(f"{place} is {row.name}, one of hba's own operations, which cannot have a function")
    own = _operation_entry(known)
    given = row.model_dump(exclude={name for name in ("interpolation", "function") if getattr(row, name) is None})
    meanings = [{**entry, "interpolation": entry.get("interpolation") or "nearest"} for entry in (own, given)]
    for entry in meanings:
        # The range is the file's. A function may have moved since; its path is no part of what magnitudes mean.
        entry.pop("function", None)
        entry["magnitude_range"] = entry["magnitude_range"] is None
    if meanings[0] != meanings[1]:
        raise ScheduleError(f"{place} must be like {json.dumps(own)}, got {json.dumps(given)}")
    return known if row.magnitude_range is None else known.with_range((row.magnitude_range[0], row.magnitude_range[1]))


def json_schema() -> dict[str, Any]:
    """The JSON schema of versions 2 and 3: keys, types and choices. Shapes and ranges are checked by Schedule.load."""
    title = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A schedule of hba"}
    return {**ScheduleFile.model_json_schema(), **title}


if __name__ == "__main__":
    print(json.dumps(json_schema(), indent=2))
