"""Schedule files with what not every reader has: own operations, interpolation, ranges that descend."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from own_operations import DARKEN, GAMMA, darken, gamma
from torch import Tensor

import hba
from hba.errors import ScheduleError
from hba.operations import OPERATIONS, Operation, register_operation
from hba.policy.space import SearchSpace
from hba.policy.spaces import SPACES, search_space
from hba.schedule.file import parse
from hba.schedule.schedule import Schedule

Content = dict[str, Any]
GOLDEN = Path(__file__).parents[1] / "golden" / "schedule-v1.json"
VALUES = np.array([[0.1, 0.5, 0.3, 0.4, 2.0], [0.9, 1.7, 1.0, 0.0, 30.0]])
"""Gamma (probability, exponent), Darken (probability), Rotate (probability, degrees)."""

pytestmark = pytest.mark.usefixtures("registered")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A schedule over two own operations, which are registered, and Rotate."""
    register_operation(GAMMA)
    register_operation(DARKEN)
    Schedule(SearchSpace((GAMMA, DARKEN, OPERATIONS["Rotate"]), copies=1), VALUES).save(tmp_path / "a.json")
    return tmp_path / "a.json"


def operations_in(path: Path) -> list[Content]:
    operations: list[Content] = json.loads(path.read_text(encoding="utf-8"))["space"]["operations"]
    return operations


def changed(path: Path, change: Callable[[Content], object]) -> str:
    """The file's text after a change."""
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    return json.dumps(content)


def refusal_of(text: str) -> str:
    with pytest.raises(ScheduleError) as raised:
        Schedule(**parse(text)._asdict())
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_an_own_operation_is_written_with_the_place_of_its_function(saved: Path) -> None:
    assert operations_in(saved) == [
        {
            "name": "Gamma",
            "magnitude_range": [0.5, 2.0],
            "unit": "exponent",
            "identity": 1.0,
            "signed": False,
            "function": "own_operations:gamma",
        },
        {
            "name": "Darken",
            "magnitude_range": None,
            "unit": None,
            "identity": None,
            "signed": False,
            "function": "own_operations:darken",
        },
        {"name": "Rotate", "magnitude_range": [0.0, 30.0], "unit": "degrees", "identity": 0.0, "signed": True},
    ]


def test_it_is_read_back_where_the_operations_are_registered(saved: Path) -> None:
    loaded = hba.load_policy(saved)
    assert loaded.space.operations == (GAMMA, DARKEN, OPERATIONS["Rotate"])
    assert loaded.space.operations[0].function is gamma
    np.testing.assert_array_equal(loaded.values, VALUES)
    loaded.save(saved.with_name("again.json"))
    assert saved.with_name("again.json").read_text() == saved.read_text()


def test_where_they_are_not_the_reader_is_told_which_function_to_register(
    saved: Path, registered: dict[str, Operation]
) -> None:
    del registered["Gamma"]
    with pytest.raises(ScheduleError) as raised:
        hba.load_policy(saved)
    assert str(raised.value) == (
        f"{saved} is not a valid schedule: space.operations[0] is Gamma, which is not one of hba's operations but the "
        "function own_operations:gamma: register it with hba.register_operation before loading the schedule "
        "(commands: --operations-file FILE.py)"
    )
    register_operation(GAMMA)
    del registered["Darken"]
    assert "space.operations[1] is Darken" in refusal_of(saved.read_text(encoding="utf-8"))


def either_way(images: Tensor, exponent: Tensor) -> Tensor:
    """Of a signed exponent, whose images stay within black and white."""
    return gamma(images, exponent.abs())


@pytest.mark.parametrize(
    "other",
    [
        Operation("Gamma", gamma, (0.5, 2.0), "power", 1.0),
        Operation("Gamma", gamma, (0.5, 2.0), None, 1.0),
        Operation("Gamma", gamma, (0.5, 2.0), "exponent", 0.0),
        Operation("Gamma", gamma, (0.5, 2.0), "exponent", None),
        Operation("Gamma", either_way, (0.5, 2.0), "exponent", 1.0, signed=True),
        Operation("Gamma", darken),
    ],
    ids=["unit", "no unit", "identity", "no identity", "sign", "no magnitude"],
)
def test_an_operation_of_the_name_with_another_meaning_is_refused(saved: Path, other: Operation) -> None:
    register_operation(other)
    message = refusal_of(saved.read_text(encoding="utf-8"))
    assert message.startswith('space.operations[0] must be like {"name": "Gamma", ')
    assert message.endswith(f", got {json.dumps(operations_in(saved)[0])}")


def test_an_operation_that_has_a_magnitude_by_now_is_refused(saved: Path) -> None:
    register_operation(Operation("Darken", gamma, (0.0, 1.0)))
    assert refusal_of(saved.read_text(encoding="utf-8")).startswith("space.operations[1] must be like ")


def test_the_range_is_the_file_s_and_all_else_the_registered_one_s(saved: Path) -> None:
    def tinted(images: Tensor, exponent: Tensor, fill: Tensor) -> Tensor:
        return gamma(images, exponent) * fill[:, None, None]

    wider = register_operation(Operation("Gamma", tinted, (3.0, 0.1), "exponent", 1.0, uses_fill=True))
    found = Schedule.load(saved).space.operations[0]
    assert found == wider.with_range((0.5, 2.0))
    np.testing.assert_array_equal(Schedule.load(saved).values, VALUES)


def test_the_function_may_have_moved(saved: Path) -> None:
    def moved(content: Content) -> None:
        content["space"]["operations"][0]["function"] = "an_older_module:power"

    assert parse(changed(saved, moved)).space == Schedule.load(saved).space


@pytest.mark.parametrize("function", [5, ["a"], True])
def test_a_function_must_be_named(saved: Path, function: Any) -> None:
    def rename(content: Content) -> None:
        content["space"]["operations"][0]["function"] = function

    assert refusal_of(changed(saved, rename)).startswith("space.operations[0].function must be a text")


def test_one_of_the_15_cannot_have_a_function_of_its_own() -> None:
    def replace(content: Content) -> None:
        content["space"]["operations"][1]["function"] = "own_operations:darken"

    message = refusal_of(changed(GOLDEN, replace))
    assert message == "space.operations[1] is Invert, one of hba's own operations, which cannot have a function"


def test_copies_without_end_are_refused_at_once() -> None:
    def multiply(content: Content) -> None:
        content["space"]["copies"] = 100_000

    expected = "hyperparameters must be the space's 300000 names, got 3"
    assert refusal_of(changed(GOLDEN, multiply)) == expected


def test_interpolation_is_written_where_it_is_bilinear(tmp_path: Path) -> None:
    schedule = Schedule(search_space("hba", ["Rotate", "Invert"], "bilinear"), np.array([[0.5, 12.0] * 2 + [0.25] * 2]))
    schedule.save(tmp_path / "a.json")
    rotate, invert = operations_in(tmp_path / "a.json")
    assert rotate["interpolation"] == "bilinear"
    assert "interpolation" not in invert
    assert all("function" not in row for row in (rotate, invert))
    loaded = Schedule.load(tmp_path / "a.json")
    assert loaded.space == schedule.space
    assert [operation.interpolation for operation in loaded.space.operations] == ["bilinear", None]


def with_interpolation(index: int, interpolation: Any) -> str:
    """The golden file with that interpolation at its Rotate or its Invert."""

    def change(content: Content) -> None:
        content["space"]["operations"][index]["interpolation"] = interpolation

    return changed(GOLDEN, change)


@pytest.mark.parametrize("said", ["nearest", None])
def test_what_says_nearest_is_as_what_says_nothing(said: str | None) -> None:
    nearest = Schedule.load(GOLDEN).space
    assert nearest.operations[0] == OPERATIONS["Rotate"]
    assert parse(with_interpolation(0, said)).space == nearest
    assert parse(with_interpolation(0, "bilinear")).space != nearest


def test_interpolation_of_an_operation_that_moves_nothing_is_refused() -> None:
    message = refusal_of(with_interpolation(1, "bilinear"))
    assert message.startswith('space.operations[1] must be like {"name": "Invert", ')
    assert message.endswith('"interpolation": "bilinear"}')


@pytest.mark.parametrize("interpolation", ["bicubic", "", "Bilinear", 1])
def test_another_interpolation_is_refused(interpolation: Any) -> None:
    message = refusal_of(with_interpolation(0, interpolation))
    assert message.startswith(
        f"space.operations[0].interpolation must be 'nearest' or 'bilinear', got {interpolation!r}"
    )


def test_a_descending_range_of_a_file_is_taken_as_it_is(tmp_path: Path) -> None:
    def descend(content: Content) -> None:
        content["space"]["operations"][0]["magnitude_range"] = [30.0, 1.0]
        content["values"] = [[0.5, 30.0, 0.5], [0.5, 1.0, 0.5], [0.5, 7.0, 0.5]]

    schedule = Schedule(**parse(changed(GOLDEN, descend))._asdict())
    assert schedule.space.ranges[1] == (30.0, 1.0)
    schedule.save(tmp_path / "a.json")
    assert operations_in(tmp_path / "a.json")[0]["magnitude_range"] == [30.0, 1.0]
    np.testing.assert_array_equal(Schedule.load(tmp_path / "a.json").values, schedule.values)


def test_values_outside_a_descending_range_of_a_file_are_refused() -> None:
    def descend(content: Content) -> None:
        content["space"]["operations"][0]["magnitude_range"] = [29.0, 1.0]

    message = refusal_of(changed(GOLDEN, descend))
    assert message == "values[2][1] (Rotate.1.magnitude) must lie in [1, 29], got 30"


@pytest.mark.parametrize("magnitude_range", [[-1.0, 30.0], [30.0, -1.0]])
def test_a_negative_range_of_a_signed_operation_is_refused(magnitude_range: list[float]) -> None:
    def below_zero(content: Content) -> None:
        content["space"]["operations"][0]["magnitude_range"] = magnitude_range

    message = refusal_of(changed(GOLDEN, below_zero))
    assert message == "space: Rotate is signed, so its magnitude_range must not be negative"


def test_the_golden_file_is_read_and_written_as_ever_beside_own_operations(tmp_path: Path) -> None:
    before = operations_in(GOLDEN)
    register_operation(GAMMA)
    schedule = Schedule.load(GOLDEN)
    assert schedule.space.operations == (OPERATIONS["Rotate"], OPERATIONS["Invert"])
    schedule.save(tmp_path / "a.json")
    assert operations_in(tmp_path / "a.json") == before


@pytest.mark.parametrize("name", ["hba", "pba"])
def test_a_named_space_says_neither_function_nor_interpolation(name: str, tmp_path: Path) -> None:
    space = SPACES[name]
    Schedule(space, np.array(space.ranges).T).save(tmp_path / "a.json")
    keys = {tuple(row) for row in operations_in(tmp_path / "a.json")}
    assert keys == {("name", "magnitude_range", "unit", "identity", "signed")}
    assert Schedule.load(tmp_path / "a.json").space == space
