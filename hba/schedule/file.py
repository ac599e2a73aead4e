"""The schedule file: JSON that a person can read, checked strictly. Versions 1, 2 and 3 are read.

Version 2 says whether K is searched, and has the spread: one number where it is the same everywhere, else rows like
those of the values, or a single row where all epochs have the same. In version 1, it is 0 and K is not searched.
Version 3 has regularizers beside the operations, of which there may be none. A schedule without regularizers is written
as version 2, which an earlier hba reads too.

It knows the parts of a schedule, not the class: Schedule itself reads and writes its file here.
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
from hba.regularization.hyperparameter import Hyperparameter
from hba.utils.files import read_text, reason_of
from hba.utils.settings import first_problem

FORMAT = "hba-schedule"
VERSION = 2
"""Of a schedule without regularizers."""
WITH_REGULARIZERS = 3
VERSIONS = (1, 2, 3)
"""Those that can be read."""

MOST_BRACKETS = 2**20
"""In a file; one of 100,000 epochs has a fifth. Each takes 30 times its own size in memory."""
MOST_QUOTES = 2**24
"""In a file; two for each text, which takes 60 bytes and more in memory."""


class _Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class OperationEntry(_Strict):
    """One operation: identity is the magnitude that changes nothing, which tells the direction.

    interpolation: of an operation that moves pixels, nearest where nothing is said. function: `module:name` of an
    operation that is not one of hba's, for the person who has to find it.
    """

    name: str
    magnitude_range: Annotated[list[float], Field(min_length=2, max_length=2)] | None
    unit: str | None
    identity: float | None
    signed: bool
    interpolation: Literal["nearest", "bilinear"] | None = None
    function: str | None = None


class SpaceEntry(_Strict):
    operations: list[OperationEntry]
    copies: int
    count_probabilities: list[float]


class CountedSpaceEntry(SpaceEntry):
    searches_count: bool


class RegularizerEntry(_Strict):
    """One hyperparameter of hba.regularization, as Hyperparameter has it."""

    name: str
    low: float
    high: float
    initial: float
    scale: Literal["linear", "log"]
    whole: bool
    unit: str | None


class TunedSpaceEntry(CountedSpaceEntry):
    regularizers: Annotated[list[RegularizerEntry], Field(min_length=1)]


class _AnyVersion(_Strict):
    format: Literal["hba-schedule"]
    fill: list[float]
    hyperparameters: list[str]
    epochs: int
    values: list[list[float]]
    provenance: dict[str, Any]


class Version1(_AnyVersion):
    version: Literal[1]
    space: SpaceEntry


class _Version2(_AnyVersion):
    version: Literal[2]
    space: CountedSpaceEntry


class WithOneSpread(_Version2):
    spread: float


class WithRowsOfSpread(_Version2):
    spread: list[list[float]]


class _Version3(_AnyVersion):
    version: Literal[3]
    space: TunedSpaceEntry


class TunedWithOneSpread(_Version3):
    spread: float


class TunedWithRowsOfSpread(_Version3):
    spread: list[list[float]]


ScheduleFile = Version1 | WithOneSpread | WithRowsOfSpread | TunedWithOneSpread | TunedWithRowsOfSpread


class Parts(NamedTuple):
    """What a file holds; values of shape (epochs, n), fill and provenance as in Schedule.

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
        "version": WITH_REGULARIZERS if parts.space.regularizers else VERSION,
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
    """One line per epoch: a row can be found and two schedules compared line by line."""
    return "[\n    " + ",\n    ".join(json.dumps(row) for row in rows.tolist()) + "\n  ]"


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
    """What is wrong with the content of a file, as a ScheduleError that names the file."""
    try:
        yield
    except HbaError as error:
        raise ScheduleError(f"{path} is not a valid {kind}: {error}") from None


def parse(text: str) -> Parts:
    """What the text of a file says; ScheduleError names the first place that breaks the format.

    Whether values and spread lie in their ranges is left to Schedule.
    """
    content = _read_json(text)
    try:
        file = _model(content).model_validate(content)
    except pydantic.ValidationError as error:
        raise ScheduleError(first_problem(error)) from None
    # Counted first, because a space of a million copies takes long to make.
    if file.space.copies * len(file.space.operations) > len(file.hyperparameters):
        n = _n_hyperparameters(file.space)
        raise ScheduleError(f"hyperparameters must be the space's {n} names, got {len(file.hyperparameters)}")
    try:
        space = _space(file.space)
    except SettingsError as error:
        raise ScheduleError(f"space: {error}") from None
    _check_shape(file, space)
    values = np.array(file.values, dtype=np.float64).reshape(len(file.values), space.n)
    spread = np.array(0.0 if isinstance(file, Version1) else file.spread, dtype=np.float64)
    return Parts(space, values, tuple(file.fill), file.provenance, spread)


def _model(content: Mapping[str, Any]) -> type[ScheduleFile]:
    if content["version"] == 1:
        return Version1
    has_rows = isinstance(content.get("spread"), list)
    if content["version"] == WITH_REGULARIZERS:
        return TunedWithRowsOfSpread if has_rows else TunedWithOneSpread
    return WithRowsOfSpread if has_rows else WithOneSpread


def _n_hyperparameters(entry: SpaceEntry) -> int:
    of_slots = entry.copies * sum(1 if row.magnitude_range is None else 2 for row in entry.operations)
    of_count = len(entry.count_probabilities) - 1 if _searches_count(entry) else 0
    return of_slots + of_count + len(_regularizers(entry))


def _searches_count(entry: SpaceEntry) -> bool:
    return isinstance(entry, CountedSpaceEntry) and entry.searches_count


def _check_shape(file: ScheduleFile, space: SearchSpace) -> None:
    if file.hyperparameters != list(space.names):
        raise ScheduleError(
            f"hyperparameters must be the space's {space.n} names in their order, {space.names[0]} first"
        )
    if file.epochs != len(file.values):
        raise ScheduleError(f"epochs is {file.epochs}, but values has {len(file.values)} rows")
    _check_rows("values", file.values, space)
    if isinstance(file, WithRowsOfSpread | TunedWithRowsOfSpread):
        if len(file.spread) not in (1, file.epochs):
            raise ScheduleError(f"spread must be a number, or have {file.epochs} rows or one, got {len(file.spread)}")
        _check_rows("spread", file.spread, space)


def _check_rows(name: str, rows: Sequence[Sequence[float]], space: SearchSpace) -> None:
    for number, row in enumerate(rows):
        if len(row) != space.n:
            raise ScheduleError(f"{name}[{number}] must have {space.n} numbers, got {len(row)}")


def _read_json(text: str) -> dict[str, Any]:
    """The content of a file that says it is a schedule of a version that is known here."""
    if text.count("[") + text.count("{") > MOST_BRACKETS:
        raise ScheduleError(f"it must have at most {MOST_BRACKETS:,} lists and mappings")
    if text.count('"') > MOST_QUOTES:
        raise ScheduleError(f"it must have at most {MOST_QUOTES // 2:,} texts")
    try:
        content = json.loads(text, object_pairs_hook=_each_once)
    except json.JSONDecodeError as error:
        raise ScheduleError(f"not JSON ({error.msg} in line {error.lineno})") from None
    except RecursionError:
        raise ScheduleError("not JSON that can be read (lists and mappings lie in each other too deeply)") from None
    except ValueError as error:
        raise ScheduleError(f"not JSON that can be read ({error})") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ScheduleError(f'the key "format" must be "{FORMAT}"')
    version = content.get("version")
    if version not in VERSIONS or isinstance(version, bool):
        known = f"{', '.join(map(str, VERSIONS[:-1]))} or {VERSIONS[-1]}"
        raise ScheduleError(f"version must be {known}, got {version!r}; a newer hba may have written it")
    return content


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A mapping in the file. ValueError for a key that stands in it twice: one of the two would be ignored."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {twice!r} stands twice in a mapping")
    return found


def space_entry(space: SearchSpace) -> dict[str, Any]:
    """What is to be said about a search space, as JSON values; of a search of K and of regularizers, only where there
    are some.
    """
    return {
        "operations": [_as_json(_operation_entry(operation)) for operation in space.operations],
        "copies": space.copies,
        "count_probabilities": list(space.count_probabilities),
        **({"searches_count": True} if space.searches_count else {}),
        **({"regularizers": [dataclasses.asdict(one) for one in space.regularizers]} if space.regularizers else {}),
    }


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


def _as_json(entry: OperationEntry) -> dict[str, Any]:
    """The entry with the keys that every operation has, and of the others those that say something."""
    optional = {name for name in ("interpolation", "function") if getattr(entry, name) is None}
    return entry.model_dump(exclude=optional)


def _space(entry: SpaceEntry) -> SearchSpace:
    operations = [_operation(row, f"space.operations[{number}]") for number, row in enumerate(entry.operations)]
    regularizers = tuple(_hyperparameter(row, number) for number, row in enumerate(_regularizers(entry)))
    return SearchSpace(
        tuple(operations), entry.copies, tuple(entry.count_probabilities), _searches_count(entry), regularizers
    )


def _regularizers(entry: SpaceEntry) -> Sequence[RegularizerEntry]:
    return entry.regularizers if isinstance(entry, TunedSpaceEntry) else ()


def _hyperparameter(row: RegularizerEntry, number: int) -> Hyperparameter:
    """Of a file's row. Ranges are the file's own; a group that nobody knows is refused."""
    place = f"space.regularizers[{number}]"
    try:
        found = Hyperparameter(**row.model_dump())
    except SettingsError as error:
        raise ScheduleError(f"{place}: {error}") from None
    if not f"{found.name}{found.unit or ''}".isprintable():
        raise ScheduleError(f"{place}: name and unit must be text that can be printed, got {found.name!r}")
    try:
        find_regularizer(found.group)
        check_range(found)
    except SettingsError as error:
        raise ScheduleError(
            f"{place}: {error}; register one of your own with hba.register_regularizer before loading the schedule "
            "(commands: --operations-file FILE.py)"
        ) from None
    return found


def _operation(row: OperationEntry, place: str) -> Operation:
    """The operation of a file's row. The range is the file's own; any other difference in meaning is refused."""
    try:
        known = find_operation(row.name)
    except SettingsError as error:
        if row.function is None:
            raise ScheduleError(f"{place}: {error}") from None
        raise ScheduleError(
            f"{place} is {row.name}, which is not one of hba's operations but the function {row.function}: register it "
            "with hba.register_operation before loading the schedule (commands: --operations-file FILE.py)"
        ) from None
    if row.function is not None and row.name in OPERATIONS:
        raise ScheduleError(f"{place} is {row.name}, one of hba's own operations, which cannot have a function")
    known = known.with_interpolation(row.interpolation or "nearest")
    own = _operation_entry(known)
    # A function may have moved since; its name is no part of what the magnitudes mean.
    same = {"magnitude_range": row.magnitude_range, "function": row.function}
    said = row if row.interpolation == "bilinear" else row.model_copy(update={"interpolation": None})
    if own.model_copy(update=same) != said or (row.magnitude_range is None) != (known.magnitude_range is None):
        raise ScheduleError(f"{place} must be like {json.dumps(_as_json(own))}, got {json.dumps(_as_json(row))}")
    return known if row.magnitude_range is None else known.with_range((row.magnitude_range[0], row.magnitude_range[1]))
