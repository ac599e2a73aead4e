"""The schedule file, version 1: JSON that a person can read, checked strictly."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field

from hba.errors import HbaError, ScheduleError, SettingsError
from hba.files import write_text
from hba.operations import Operation, find_operation
from hba.schedule import Schedule
from hba.space import SearchSpace
from hba.validation import first_problem

FORMAT = "hba-schedule"
VERSION = 1


class _Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class OperationEntry(_Strict):
    """One operation: identity is the magnitude that changes nothing, which tells the direction."""

    name: str
    magnitude_range: Annotated[list[float], Field(min_length=2, max_length=2)] | None
    unit: str | None
    identity: float | None
    signed: bool


class SpaceEntry(_Strict):
    operations: list[OperationEntry]
    copies: int
    count_probabilities: list[float]


class ScheduleFile(_Strict):
    format: Literal["hba-schedule"]
    version: Literal[1]
    space: SpaceEntry
    fill: list[float]
    hyperparameters: list[str]
    epochs: int
    values: list[list[float]]
    provenance: dict[str, Any]


def write_schedule(schedule: Schedule, path: Path) -> None:
    """Write the file whole or not at all."""
    head = {
        "format": FORMAT,
        "version": VERSION,
        "space": _space_entry(schedule.space).model_dump(),
        "fill": list(schedule.fill),
        "hyperparameters": list(schedule.space.names),
        "epochs": schedule.epochs,
    }
    # One line per epoch: a row can be found and two schedules compared line by line.
    rows = ",\n    ".join(json.dumps(row) for row in schedule.values.tolist())
    tail = {"provenance": dict(schedule.provenance)}
    text = json.dumps(head, indent=2)[:-2] + ',\n  "values": [\n    ' + rows + "\n  ]," + json.dumps(tail, indent=2)[1:]
    write_text(path, text + "\n")


def read_schedule(path: Path) -> Schedule:
    """Read and check a file. ScheduleError names the file and the first place that is wrong."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ScheduleError(f"no schedule file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ScheduleError(f"{path} cannot be read as a schedule: {error}") from None
    try:
        return parse_schedule(text)
    except HbaError as error:
        raise ScheduleError(f"{path} is not a valid schedule: {error}") from None


def parse_schedule(text: str) -> Schedule:
    """A schedule from the text of its file; ScheduleError names the first place that is wrong."""
    content = _read_json(text)
    try:
        file = ScheduleFile.model_validate(content)
    except pydantic.ValidationError as error:
        raise ScheduleError(first_problem(error)) from None
    try:
        space = _space(file.space)
    except SettingsError as error:
        raise ScheduleError(f"space: {error}") from None
    if file.hyperparameters != list(space.names):
        raise ScheduleError(
            f"hyperparameters must be the space's {space.n} names in their order, {space.names[0]} first"
        )
    if file.epochs != len(file.values):
        raise ScheduleError(f"epochs is {file.epochs}, but values has {len(file.values)} rows")
    for number, row in enumerate(file.values):
        if len(row) != space.n:
            raise ScheduleError(f"values[{number}] must have {space.n} numbers, got {len(row)}")
    return Schedule(space, file.values, tuple(file.fill), file.provenance)  # type: ignore[arg-type]


def _read_json(text: str) -> dict[str, Any]:
    """The content of a file that says it is a schedule of this version."""
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise ScheduleError(f"not JSON ({error.msg} in line {error.lineno})") from None
    except (RecursionError, ValueError) as error:
        raise ScheduleError(f"not JSON that can be read ({error})") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ScheduleError(f'the key "format" must be "{FORMAT}"')
    if content.get("version") != VERSION or isinstance(content["version"], bool):
        raise ScheduleError(
            f"version must be {VERSION}, got {content.get('version')!r}; a newer hba may have written it"
        )
    return content


def _space_entry(space: SearchSpace) -> SpaceEntry:
    return SpaceEntry(
        operations=[_operation_entry(operation) for operation in space.operations],
        copies=space.copies,
        count_probabilities=list(space.count_probabilities),
    )


def _operation_entry(operation: Operation) -> OperationEntry:
    return OperationEntry(
        name=operation.name,
        magnitude_range=None if operation.magnitude_range is None else list(operation.magnitude_range),
        unit=operation.unit,
        identity=operation.identity,
        signed=operation.signed,
    )


def _space(entry: SpaceEntry) -> SearchSpace:
    """The space of a file. Ranges are the file's own; a meaning of magnitudes that this version lacks is refused."""
    operations = []
    for number, row in enumerate(entry.operations):
        own = _operation_entry(find_operation(row.name))
        expected = own.model_copy(update={"magnitude_range": row.magnitude_range})
        if expected != row or (own.magnitude_range is None) != (row.magnitude_range is None):
            raise ScheduleError(
                f"space.operations[{number}] must be like {own.model_dump_json()}, got {row.model_dump_json()}"
            )
        if row.magnitude_range is None:
            operations.append(find_operation(row.name))
        else:
            low, high = row.magnitude_range
            if low > high:
                raise ScheduleError(
                    f"space.operations[{number}].magnitude_range must be [low, high], got [{low}, {high}]"
                )
            operations.append(dataclasses.replace(find_operation(row.name), magnitude_range=(low, high)))
    return SearchSpace(tuple(operations), entry.copies, tuple(entry.count_probabilities))
