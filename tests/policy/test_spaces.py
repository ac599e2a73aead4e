"""Search spaces by name, and ranges that descend: from the space over the schedule to its picture."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from own_operations import DARKEN, GAMMA
from paper_table import PAPER_RANGES
from PIL import Image

import hba
from hba.errors import ScheduleError, SettingsError
from hba.operations import OPERATIONS, register_operation
from hba.policy.space import SearchSpace
from hba.policy.spaces import SPACES, find_space, search_space
from hba.schedule.pictures import draw_schedule
from hba.schedule.schedule import Schedule
from hba.schedule.summary import summarize

PBA_TABLE: dict[str, tuple[float, float] | None] = {
    "Rotate": (0, 30),
    "TranslateX": (0, 0.3125),
    "TranslateY": (0, 0.3125),
    "Brightness": (0.1, 1.9),
    "Color": (0.1, 1.9),
    "Invert": None,
    "Sharpness": (0.1, 1.9),
    "Posterize": (4, 0),
    "ShearX": (0, 0.3),
    "Solarize": (256, 0),
    "ShearY": (0, 0.3),
    "Equalize": None,
    "AutoContrast": None,
    "Cutout": (0, 0.625),
    "Contrast": (0.1, 1.9),
}
"""Magnitudes at PBA's levels 0 and 10, in the order of its files; 10 and 20 pixels of 32 are 0.3125 and 0.625."""

GEOMETRIC = {"ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate"}
PBA = SPACES["pba"]
DESCENDING = {"Posterize": (4.0, 0.0), "Solarize": (256.0, 0.0)}


def ranges_of(space: SearchSpace) -> list[tuple[str, tuple[float, float] | None]]:
    return [(operation.name, operation.magnitude_range) for operation in space.operations]


def names_of(space: SearchSpace) -> list[str]:
    return [operation.name for operation in space.operations]


@pytest.mark.parametrize(("name", "table"), [("hba", PAPER_RANGES), ("pba", PBA_TABLE)])
def test_a_named_space_is_its_source_s_table_in_its_order(
    name: str, table: dict[str, tuple[float, float] | None]
) -> None:
    space = SPACES[name]
    assert ranges_of(space) == list(table.items())
    assert (space.n, space.n_slots, space.copies) == (54, 30, 2)
    assert space.count_probabilities == (0.2, 0.3, 0.5)
    for operation in space.operations:
        # What a magnitude means is the same in every space; only where to search differs.
        assert operation.with_range(PAPER_RANGES[operation.name]) == OPERATIONS[operation.name]


def test_there_are_two_named_spaces_and_they_cannot_be_changed() -> None:
    assert list(SPACES) == ["hba", "pba"]
    assert hba.SPACES is SPACES
    assert find_space("hba") == SearchSpace()
    with pytest.raises(TypeError):
        SPACES["mine"] = SearchSpace()  # type: ignore[index]


@pytest.mark.parametrize("name", ["", "HBA", "all", "faa"])
def test_an_unknown_space_is_refused_with_the_known_ones(name: str) -> None:
    for find in (find_space, search_space):
        with pytest.raises(SettingsError) as raised:
            find(name)
        meant = "; did you mean hba? Known" if name == "HBA" else "; known"
        assert str(raised.value) == f"unknown search space {name!r}{meant}: hba, pba"


@pytest.mark.parametrize("name", ["hba", "pba"])
@pytest.mark.parametrize("operations", [None, ["all"], ("all",)])
def test_nothing_chosen_and_all_are_the_whole_space(name: str, operations: Iterable[str] | None) -> None:
    assert search_space(name, operations) == SPACES[name]


def test_the_default_is_the_paper_s_space_without_interpolation() -> None:
    assert hba.search_space() == SearchSpace()


@pytest.mark.parametrize(
    ("name", "operations", "expected"),
    [
        ("hba", ["Posterize"], [("Posterize", (0.0, 8.0))]),
        ("pba", ["Posterize"], [("Posterize", (4.0, 0.0))]),
        ("hba", ["Rotate", "Invert", "Color"], [("Rotate", (0, 30)), ("Invert", None), ("Color", (0.1, 1.9))]),
        ("pba", ("Cutout", "Solarize"), [("Cutout", (0, 0.625)), ("Solarize", (256, 0))]),
    ],
)
def test_chosen_operations_are_those_of_the_space_in_the_order_given(
    name: str, operations: Iterable[str], expected: list[tuple[str, tuple[float, float] | None]]
) -> None:
    space = search_space(name, operations)
    assert ranges_of(space) == expected
    assert (space.copies, space.count_probabilities) == (2, (0.2, 0.3, 0.5))


def test_names_may_come_from_anything_that_can_be_gone_through_once() -> None:
    assert names_of(search_space("hba", iter(["Invert", "Rotate"]))) == ["Invert", "Rotate"]


@pytest.mark.usefixtures("registered")
def test_registered_operations_stand_where_they_are_named() -> None:
    register_operation(DARKEN)
    register_operation(GAMMA)
    assert search_space("pba", ["Gamma", "Rotate"]).operations == (GAMMA, PBA.operations[0])
    assert search_space("pba", ["all", "Gamma"]).operations == (*PBA.operations, GAMMA)
    assert search_space("hba", ["Darken", "all", "Gamma"]).operations == (DARKEN, *OPERATIONS.values(), GAMMA)
    assert search_space("hba", ["all"]) == SearchSpace(), "an own operation is there only by its name"
    assert search_space("hba", ["Gamma"], "bilinear").operations == (GAMMA,)


@pytest.mark.parametrize("operations", [["Rotate", "Rotate"], ["all", "Invert"], ["all", "all"], []])
def test_each_operation_is_there_once(operations: list[str]) -> None:
    with pytest.raises(SettingsError, match="operations must be at least one and each named once"):
        search_space("hba", operations)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("wanted", ["Gamma", "rotate", "", "All", "Rotate "])
def test_an_unknown_operation_is_refused_with_the_known_ones(wanted: str) -> None:
    register_operation(DARKEN)
    with pytest.raises(SettingsError) as raised:
        search_space("pba", ["Rotate", wanted])
    meant = "; did you mean Rotate? Known" if wanted.strip().lower() == "rotate" else "; known"
    known = ", ".join([*OPERATIONS, "Darken"])
    assert str(raised.value).startswith(f"unknown operation {wanted!r}{meant}: {known}")


@pytest.mark.parametrize("name", ["hba", "pba"])
def test_interpolation_is_of_the_operations_that_move_pixels(name: str) -> None:
    plain, bilinear = search_space(name), search_space(name, None, "bilinear")
    assert {operation.name: operation.interpolation for operation in plain.operations} == {
        wanted: "nearest" if wanted in GEOMETRIC else None for wanted in PAPER_RANGES
    }
    assert ranges_of(bilinear) == ranges_of(plain)
    for before, after in zip(plain.operations, bilinear.operations, strict=True):
        assert after.interpolation == ("bilinear" if before.name in GEOMETRIC else None)
        assert after.with_interpolation("nearest") == before


def test_bilinear_gives_other_pixels_and_rotations_stay_rotations() -> None:
    images = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    angle = torch.tensor([20.0, 20.0])
    nearest, bilinear = (search_space("hba", ["Rotate"], kind).operations[0] for kind in ("nearest", "bilinear"))
    assert not torch.equal(nearest(images, angle), bilinear(images, angle))
    for operation in (nearest, bilinear):
        torch.testing.assert_close(operation(images, torch.zeros(2)), images)


@pytest.mark.parametrize("interpolation", ["", "bicubic", "Nearest"])
def test_another_interpolation_is_refused(interpolation: str) -> None:
    with pytest.raises(SettingsError) as raised:
        search_space("hba", ["Invert"], interpolation)
    assert str(raised.value) == f"interpolation must be nearest or bilinear, got {interpolation!r}"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-15, 15), min_size=54, max_size=54))
def test_decode_goes_from_the_first_end_to_the_second_and_encode_undoes_it(logits: list[float]) -> None:
    expected = [
        first + (second - first) / (1 + math.exp(-logit))
        for (first, second), logit in zip(PBA.ranges, logits, strict=True)
    ]
    values = PBA.decode(torch.tensor(logits, dtype=torch.float64))
    torch.testing.assert_close(values, torch.tensor(expected, dtype=torch.float64), atol=1e-10, rtol=1e-12)
    torch.testing.assert_close(PBA.encode(values), torch.tensor(logits, dtype=torch.float64), atol=1e-6, rtol=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=54, max_size=54), st.sampled_from([torch.float32, torch.float64]))
def test_values_survive_encode_and_decode(fractions: list[float], dtype: torch.dtype) -> None:
    first, second = torch.tensor(PBA.ranges, dtype=dtype).unbind(1)
    values = torch.lerp(first, second, torch.tensor(fractions, dtype=dtype))
    atol = 1e-10 if dtype == torch.float64 else 1e-3
    torch.testing.assert_close(PBA.decode(PBA.encode(values)), values, atol=atol, rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_infinite_logits_are_exactly_the_two_ends(dtype: torch.dtype) -> None:
    first, second = torch.tensor(PBA.ranges, dtype=dtype).unbind(1)
    infinite = torch.full((PBA.n,), math.inf, dtype=dtype)
    assert torch.equal(PBA.decode(-infinite), first)
    assert torch.equal(PBA.decode(infinite), second)
    assert torch.equal(PBA.encode(first), -infinite)
    assert torch.equal(PBA.encode(second), infinite)


def test_a_search_starts_near_the_first_end() -> None:
    values = PBA.named(PBA.decode(PBA.initial().double()))
    assert values["Posterize.1.magnitude"] == pytest.approx(3.8)
    assert values["Solarize.2.magnitude"] == pytest.approx(243.2, rel=1e-5)
    assert values["Rotate.1.magnitude"] == pytest.approx(1.5)
    assert values["Cutout.2.magnitude"] == pytest.approx(0.03125)
    assert values["Solarize.1.probability"] == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("name", "value", "bounds"),
    [
        ("Posterize", 4.01, "[0.0, 4.0]"),
        ("Posterize", -0.01, "[0.0, 4.0]"),
        ("Solarize", 256.5, "[0.0, 256.0]"),
        ("Solarize", math.nan, "[0.0, 256.0]"),
    ],
)
def test_values_outside_are_refused_with_the_range_in_order(name: str, value: float, bounds: str) -> None:
    space = SearchSpace((PBA.operations[0], search_space("pba", [name]).operations[0]), copies=1)
    row = [0.5, 12.0, 0.5, value]
    with pytest.raises(SettingsError) as raised:
        space.encode(torch.tensor([[0.5, 12.0, 0.5, 2.0], row]))
    assert str(raised.value) == f"{name}.1.magnitude must lie in {bounds}"
    whole = bounds.replace(".0", "")
    with pytest.raises(ScheduleError) as refused:
        Schedule(space, np.array([row]))
    assert str(refused.value) == f"values[0][3] ({name}.1.magnitude) must lie in {whole}, got {value:g}"


def going_down(epochs: int = 3) -> Schedule:
    """From the first ends of PBA's ranges to the second ones."""
    first, second = np.array(PBA.ranges).T
    return Schedule(PBA, np.linspace(first, second, epochs))


def test_a_schedule_is_read_back_with_its_directions(tmp_path: Path) -> None:
    schedule = going_down(7)
    schedule.save(tmp_path / "a.json")
    loaded = Schedule.load(tmp_path / "a.json")
    assert loaded.space == PBA
    np.testing.assert_array_equal(loaded.values, schedule.values)
    named = loaded.space.named(torch.tensor(loaded.values[0]))
    assert (named["Posterize.1.magnitude"], named["Solarize.1.magnitude"]) == (4.0, 256.0)


def test_a_schedule_is_stretched_inside_descending_ranges() -> None:
    stretched = going_down().stretched(9)
    solarize = PBA.names.index("Solarize.1.magnitude")
    np.testing.assert_allclose(stretched.values[:, solarize], np.linspace(256, 0, 9), atol=1e-9)


def test_a_policy_draws_the_magnitudes_that_the_schedule_says() -> None:
    policy = going_down().policy(2)
    draw = policy.draw(400, torch.Generator().manual_seed(0))
    for name, last in (("Posterize", 0.0), ("Solarize", 0.0), ("Invert", 0.0), ("Color", 1.9)):
        slots = [slot for slot in range(30) if PBA.operations[slot // 2].name == name]
        chosen = torch.isin(draw.slots, torch.tensor(slots))
        assert chosen.any()
        torch.testing.assert_close(draw.magnitudes[chosen], torch.full((int(chosen.sum()),), last))


def test_the_picture_of_a_descending_range_has_its_smaller_end_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure

    saved: list[Any] = []
    save = Figure.savefig

    def keep(figure: Figure, *arguments: Any, **options: Any) -> None:
        saved.append(figure)
        save(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", keep)
    schedule = going_down()
    draw_schedule(schedule, tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as image:
        image.load()
        assert image.width > image.height > 400
    assert [axes.get_title() for axes in saved[0].axes if axes.get_title()] == list(PBA_TABLE)
    for unit, name in (("bits kept", "Posterize"), ("first grey level inverted", "Solarize")):
        (axes,) = [axes for axes in saved[0].axes if axes.get_ylabel() == unit]
        low, high = axes.get_ylim()
        first, second = DESCENDING[name]
        assert low < second < first < high
        column = schedule.values[:, PBA.names.index(f"{name}.1.magnitude")]
        assert axes.get_lines()[0].get_ydata().tolist() == column.tolist()


def test_the_summary_of_a_descending_range_is_strongest_at_its_second_end() -> None:
    values = np.array([[1.0, 4.0] * 2 + [1.0, 256.0] * 2, [1.0, 0.0] * 2 + [1.0, 64.0] * 2])
    schedule = Schedule(search_space("pba", ["Posterize", "Solarize"]), values)
    found = {summary.operation.name: summary for summary in summarize(schedule, (0, 1))}
    # Posterize leaves 8 bits alone, so that 4 bits are half of what the range allows; Solarize leaves 256 alone.
    assert found["Posterize"].strength == pytest.approx((0.5, 1.0))
    assert found["Solarize"].strength == pytest.approx((0.0, 0.75))
    assert found["Posterize"].magnitude == pytest.approx((4.0, 0.0))
    assert list(found) == ["Posterize", "Solarize"]


@pytest.mark.parametrize("magnitude_range", [None, (0.0, 0.5)])
def test_a_range_is_given_to_what_has_a_magnitude_only(magnitude_range: tuple[float, float] | None) -> None:
    operation = OPERATIONS["Rotate" if magnitude_range is None else "Invert"]
    with pytest.raises(SettingsError, match=f"the magnitude_range of {operation.name} must be like"):
        operation.with_range(magnitude_range)
