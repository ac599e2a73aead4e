"""What a schedule amounts to: means over copies and strengths, computed by hand."""

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule
from hba.schedule.summary import band, changes, copies_of, key_epochs, start_of, summarize


def schedule_of(names: list[str], rows: list[list[float]], copies: int = 1, **provenance: Any) -> Schedule:
    space = SearchSpace(tuple(OPERATIONS[name] for name in names), copies, count_probabilities=(0.5, 0.5))
    return Schedule(space, np.array(rows), provenance=provenance)


ROTATE_TWICE = schedule_of(["Rotate"], [[0.0, 30.0, 0.0, 0.0], [0.2, 15.0, 0.6, 3.0], [1.0, 30.0, 0.5, 15.0]], copies=2)
"""Columns: probability and magnitude of copy 1, of copy 2; range [0, 30] degrees, 0 does nothing."""


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [(1, (0,)), (2, (0, 1)), (3, (0, 1, 2)), (4, (0, 2, 3)), (5, (0, 2, 4)), (300, (0, 150, 299))],
)
def test_key_epochs_are_first_middle_and_last(epochs: int, expected: tuple[int, ...]) -> None:
    assert key_epochs(schedule_of(["Invert"], [[0.5]] * epochs)) == expected


def test_copies_are_the_operation_s_own_columns() -> None:
    schedule = schedule_of(
        ["Invert", "Rotate"], [[0.1, 0.2, 0.3, 1.0, 0.4, 2.0], [0.5, 0.6, 0.7, 3.0, 0.8, 4.0]], copies=2
    )
    invert, rotate = schedule.space.operations
    np.testing.assert_array_equal(copies_of(schedule, invert, "probability"), [[0.1, 0.2], [0.5, 0.6]])
    np.testing.assert_array_equal(copies_of(schedule, rotate, "probability"), [[0.3, 0.4], [0.7, 0.8]])
    np.testing.assert_array_equal(copies_of(schedule, rotate, "magnitude"), [[1.0, 2.0], [3.0, 4.0]])


def test_means_are_over_copies_and_strength_is_of_each_copy() -> None:
    (summary,) = summarize(ROTATE_TWICE, (0, 1, 2))
    assert summary.operation is OPERATIONS["Rotate"]
    assert summary.probability == pytest.approx((0.0, 0.4, 0.75))
    assert summary.magnitude == pytest.approx((15.0, 9.0, 22.5))
    # 0.2 15/30 and 0.6 3/30; 1.0 30/30 and 0.5 15/30.
    assert summary.strength == pytest.approx((0.0, (0.1 + 0.06) / 2, (1.0 + 0.25) / 2))


def test_only_the_epochs_asked_for_are_given_in_their_order() -> None:
    (summary,) = summarize(ROTATE_TWICE, (2, 0))
    assert summary.probability == pytest.approx((0.75, 0.0))
    assert summary.magnitude == pytest.approx((22.5, 15.0))


def test_magnitudes_that_a_mean_would_hide_are_shown_copy_by_copy() -> None:
    row = [0.5, 12.0, 0.5, 18.0, 0.5, 1.45, 0.7, 0.62]
    by_name = {one.operation.name: one for one in summarize(schedule_of(["Rotate", "Brightness"], [row], 2), (0,))}
    assert by_name["Rotate"].shown_magnitudes == ((15.0,),)
    assert by_name["Brightness"].shown_magnitudes == ((1.45, 0.62),)
    assert by_name["Brightness"].magnitude == pytest.approx((1.035,))


def test_an_operation_without_magnitude_is_as_strong_as_it_is_probable() -> None:
    (summary,) = summarize(schedule_of(["Equalize"], [[0.2, 0.4], [1.0, 0.5]], copies=2), (0, 1))
    assert summary.magnitude is None
    assert summary.probability == summary.strength == pytest.approx((0.3, 0.75))


@pytest.mark.parametrize(
    ("name", "magnitude", "strength"),
    [
        # The identity is at 0, at an end of the range.
        ("ShearX", 0.3, 1.0),
        ("ShearX", 0.0, 0.0),
        ("TranslateY", 0.09, 0.2),
        ("Cutout", 0.05, 0.25),
        # The identity is in the middle of [0.1, 1.9]: a factor of 1.
        ("Brightness", 1.0, 0.0),
        ("Color", 0.1, 1.0),
        ("Contrast", 1.9, 1.0),
        ("Sharpness", 1.45, 0.5),
        # The higher the magnitude, the weaker: bits kept of 8, and levels below 256 that stay.
        ("Posterize", 8.0, 0.0),
        ("Posterize", 6.0, 0.25),
        ("Posterize", 0.0, 1.0),
        ("Solarize", 0.0, 1.0),
        ("Solarize", 128.0, 0.5),
        ("Solarize", 255.0, 1 / 256),
    ],
)
def test_strength_is_how_far_a_magnitude_is_from_doing_nothing(name: str, magnitude: float, strength: float) -> None:
    (summary,) = summarize(schedule_of([name], [[1.0, magnitude]]), (0,))
    assert summary.strength == pytest.approx((strength,), abs=1e-12)


def test_where_there_is_a_spread_strength_is_that_of_the_images() -> None:
    schedule = schedule_of(["Brightness"], [[0.3, 1.0]]).with_spread(1.0)
    (summary,) = summarize(schedule, (0,))
    noise = np.random.default_rng(0).normal(size=(2, 200_000))
    fires, far = expit(logit(0.3) + noise[0]), abs(2 * expit(noise[1]) - 1)
    assert summary.strength == pytest.approx(((fires * far).mean(),), rel=0.01)
    assert (summary.probability, summary.magnitude) == ((0.3,), (1.0,)), "of the row"


def test_a_band_is_one_spread_of_logits_to_either_side() -> None:
    schedule = schedule_of(["Rotate", "Invert"], [[0.2, 12.0, 0.5], [1.0, 30.0, 0.0]])
    schedule = Schedule(schedule.space, schedule.values, spread=np.array([[1.0, 0.5, 0.0], [1.0, 2.0, 3.0]]))
    for sign, end in zip((-1, 1), band(schedule), strict=True):
        expected = [expit(logit(0.2) + sign), 30 * expit(logit(0.4) + 0.5 * sign), 0.5]
        np.testing.assert_allclose(end.values, [expected, [1.0, 30.0, 0.0]])


def test_the_strongest_at_the_last_epoch_asked_for_comes_first() -> None:
    # Columns: Invert's probability, Rotate's probability and magnitude, Posterize's, Equalize's probability.
    first, last = [0.9, 0.5, 15.0, 1.0, 8.0, 0.1], [0.3, 1.0, 15.0, 1.0, 6.0, 0.4]
    schedule = schedule_of(["Invert", "Rotate", "Posterize", "Equalize"], [first, last])

    def order(*epochs: int) -> list[tuple[str, float]]:
        return [(summary.operation.name, round(summary.strength[-1], 9)) for summary in summarize(schedule, epochs)]

    assert order(0, 1) == [("Rotate", 0.5), ("Equalize", 0.4), ("Invert", 0.3), ("Posterize", 0.25)]
    assert order(1, 0) == [("Invert", 0.9), ("Rotate", 0.25), ("Equalize", 0.1), ("Posterize", 0.0)]


def test_equally_strong_operations_keep_the_space_s_order() -> None:
    names = ["Equalize", "Invert", "AutoContrast"]
    summaries = summarize(schedule_of(names, [[0.5, 0.5, 0.5]]), (0,))
    assert [summary.operation.name for summary in summaries] == names


def test_what_changed_most_is_told_from_where_the_search_began() -> None:
    """All began at 5 % of their ranges: [0, 1], [0, 30] degrees, [0, 8] bits."""
    names, rows = ["Equalize", "Rotate", "Posterize"], [[0.3, 0.1, 2.0, 0.1, 7.6], [0.9, 0.05, 16.5, 0.85, 0.4]]
    found = changes(schedule_of(names, rows, settings={"initial_fraction": 0.05}), 1)
    assert [change.operation.name for change in found] == ["Equalize", "Posterize", "Rotate"]
    assert [change.size for change in found] == pytest.approx([0.85, 0.8, 0.5])
    assert found[0].probability == pytest.approx((0.05, 0.9))
    assert found[0].magnitude is None
    assert found[1].magnitude == pytest.approx(np.array([[0.4], [0.4]]))
    assert found[2].probability == pytest.approx((0.05, 0.05))
    assert found[2].magnitude == pytest.approx(np.array([[1.5], [16.5]]))


def test_changes_are_of_the_mean_over_copies() -> None:
    (change,) = changes(ROTATE_TWICE, 2)
    assert change.probability == pytest.approx((0.0, 0.75))
    assert change.magnitude == pytest.approx(np.array([[15.0], [22.5]]))


@pytest.mark.parametrize(
    ("rows", "size"),
    [
        # Probabilities by 0.4 and 0.2, magnitudes by 3 and 12 of 30 degrees; then by 0.1 and 0.1, and 12 and 12.
        ([[0.2, 10.0, 0.6, 20.0], [0.6, 13.0, 0.4, 8.0]], 0.3),
        ([[0.2, 10.0, 0.6, 20.0], [0.3, 22.0, 0.5, 8.0]], 0.4),
        ([[0.5, 10.0, 0.5, 20.0], [0.5, 10.0, 0.5, 20.0]], 0.0),
    ],
)
def test_the_size_of_a_change_is_the_mean_of_the_copies_own_moves(rows: list[list[float]], size: float) -> None:
    (change,) = changes(schedule_of(["Rotate"], rows, copies=2), 1)
    assert change.size == pytest.approx(size)


def test_a_shared_move_of_copies_to_opposite_sides_is_not_lost() -> None:
    """One logit away from 1, where a search at RandAugment's policy began at 1.27 and 0.73 of [0.1, 1.9]."""
    factor = 0.1 + 1.8 * expit(logit(0.65) + 1)
    rows = [[0.5, factor, 0.5, 2 - factor, 0.7, 0.5]]
    names, settings = ["Brightness", "Equalize"], {"init": "randaugment"}
    brightness, equalize = changes(schedule_of(names, rows, copies=2, settings=settings), 0)
    assert (brightness.operation.name, equalize.operation.name) == ("Brightness", "Equalize")
    assert brightness.magnitude == pytest.approx(np.array([[1.27, 0.73], [factor, 2 - factor]]))
    assert brightness.size == pytest.approx((factor - 1.27) / 1.8)


@pytest.mark.parametrize(
    ("name", "before", "after", "expected"),
    [
        ("Brightness", (1.27, 0.73), (1.45, 0.62), [[1.27, 0.73], [1.45, 0.62]]),
        ("Brightness", (1.2, 1.4), (1.5, 0.9), [[1.2, 1.4], [1.5, 0.9]]),
        ("Brightness", (0.9, 1.5), (1.2, 1.4), [[0.9, 1.5], [1.2, 1.4]]),
        # On one side before, on the other after; then one copy that does nothing.
        ("Brightness", (1.2, 1.4), (0.8, 0.4), [[1.3], [0.6]]),
        ("Brightness", (1.0, 1.4), (0.8, 1.0), [[1.2], [0.9]]),
        # What does nothing is at an end of the range.
        ("Rotate", (3.0, 9.0), (0.0, 30.0), [[6.0], [15.0]]),
    ],
)
def test_magnitudes_are_told_copy_by_copy_where_copies_are_on_both_sides_of_doing_nothing(
    name: str, before: tuple[float, float], after: tuple[float, float], expected: list[list[float]]
) -> None:
    rows = [[0.5, magnitudes[0], 0.5, magnitudes[1]] for magnitudes in (before, after)]
    (change,) = changes(schedule_of([name], rows, copies=2), 1)
    assert change.magnitude == pytest.approx(np.array(expected))


@pytest.mark.parametrize("settings", [None, 3, {}, {"initial_fraction": None}, {"initial_fraction": "0.5"},
                                      {"initial_fraction": 2.0}, {"initial_fraction": True}])  # fmt: skip
def test_without_a_known_start_changes_are_from_the_first_epoch(settings: Any) -> None:
    schedule = schedule_of(["Equalize"], [[0.2], [0.6]], settings=settings)
    assert start_of(schedule) is None
    assert changes(schedule, 1)[0].probability == pytest.approx((0.2, 0.6))


def test_the_start_is_that_of_the_space() -> None:
    schedule = schedule_of(["Rotate", "Solarize"], [[0.5] * 4], settings={"initial_fraction": 0.25})
    expected = schedule.space.decode(schedule.space.initial(0.25).double())
    np.testing.assert_allclose(start_of(schedule), expected, rtol=1e-6)  # type: ignore[arg-type]


def test_a_search_that_began_at_randaugment_says_so() -> None:
    names, settings = ["Rotate", "Invert"], {"init": "randaugment", "initial_fraction": 0.5}
    start = start_of(schedule_of(names, [[0.5, 15.0, 0.5]], settings=settings))
    assert start == pytest.approx([0.5, 9.0, 0.2])
