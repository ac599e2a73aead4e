"""Where things stand in a plot: against ends that are known, and rules that hold for all numbers."""

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hba.report.geometry import (
    Axes,
    Scale,
    around,
    epoch_ticks,
    epochs_scale,
    from_zero,
    kept_apart,
    some_of,
    x_ticks,
    y_ticks,
)

NUMBERS = st.floats(-1e6, 1e6)


def numbers_in(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"([-\d.e]+),([-\d.e]+)", path)]


def test_a_line_goes_from_left_to_right_and_up_is_smaller() -> None:
    axes = Axes(Scale(1, 5), Scale(0, 10))
    assert axes.line([1, 3, 5], [0, 5, 10]) == "M0,100L50,50L100,0"
    assert axes.dots([3], [2.5]) == "M50,75h0.01"


def test_one_point_is_a_dot_and_its_area_a_bar_over_the_width() -> None:
    axes = Axes(epochs_scale(1), Scale(0, 1))
    assert axes.line([1], [0.25]) == "M50,75h0.01"
    assert numbers_in(axes.area([1], [0.25], [0.5])) == [(0, 75), (0, 50), (100, 50), (100, 75)]


def test_an_area_goes_there_above_and_back_below() -> None:
    axes = Axes(Scale(0, 1), Scale(0, 4))
    assert numbers_in(axes.area([0, 1], [0, 1], [2, 4])) == [(0, 50), (100, 0), (100, 75), (0, 100)]


@pytest.mark.parametrize(("count", "most", "found"), [(5, 9, [0, 1, 2, 3, 4]), (9, 3, [0, 4, 8]), (1, 3, [0])])
def test_some_of_many_are_the_ends_and_between_them(count: int, most: int, found: list[int]) -> None:
    assert some_of(count, most) == found


@given(st.integers(1, 5000), st.integers(2, 200))
def test_some_of_many_keep_both_ends_and_are_not_too_many(count: int, most: int) -> None:
    found = some_of(count, most)
    assert found[0] == 0
    assert found[-1] == count - 1
    assert len(found) == min(count, most)
    assert found == sorted(set(found))


@given(st.lists(st.floats(0, 100), min_size=1, max_size=10))
def test_labels_are_kept_apart_in_their_order_and_inside(places: list[float]) -> None:
    gap = 9.0
    moved = kept_apart(places, gap)
    ordered = [moved[index] for index in sorted(range(len(places)), key=lambda index: places[index])]
    assert all(after - before >= gap - 0.02 for before, after in itertools.pairwise(ordered))
    assert min(moved) >= 0
    assert max(moved) <= 100


def test_labels_with_room_stay_where_they_are() -> None:
    assert kept_apart([80.0, 10.0, 50.0], 5.0) == [80.0, 10.0, 50.0]


@settings(deadline=None)
@given(NUMBERS, st.floats(1e-3, 1e6))
def test_a_scale_reaches_from_tick_to_tick_round_the_numbers(low: float, width: float) -> None:
    scale = around(low, low + width)
    slack = 1e-5 * (abs(low) + width)
    assert scale.low <= low + slack
    assert scale.high >= low + width - slack
    ticks = [tick.at for tick in x_ticks(scale)]
    assert (ticks[0], ticks[-1]) == (0, 100)
    assert 2 <= len(ticks) <= 7


@settings(deadline=None)
@given(st.floats(0, 1e6))
def test_a_scale_from_zero_has_room_for_the_highest(highest: float) -> None:
    scale = from_zero(highest)
    assert scale.low == 0
    assert scale.high >= highest * (1 - 1e-5)
    assert scale.high > 0


def test_ticks_are_round_numbers_at_their_places() -> None:
    assert [(tick.at, tick.text) for tick in y_ticks(from_zero(2.3))] == [
        (100, "0"),
        (66.67, "1"),
        (33.33, "2"),
        (0, "3"),
    ]
    assert [(tick.at, tick.text) for tick in epoch_ticks(60)] == [(0, "1"), (50.85, "31"), (100, "60")]
    assert [(tick.at, tick.text) for tick in epoch_ticks(1)] == [(50, "1")]
