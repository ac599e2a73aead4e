"""What a schedule amounts to: strengths, changes and reach, by hand, by every outcome
of small walks, and by draws.
"""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from enumerated_walks import exact_outcomes
from random_inputs import seeded
from scipy.special import expit, logit
from tuned_schedules import NAMES, OTHERS, alone, both, random_schedule, staged

import hba
from hba.operations import OPERATIONS
from hba.policy.class_moves import NO_CLASS, ClassMoves
from hba.policy.space import SearchSpace
from hba.regularization.groups import REGULARIZERS
from hba.report.findings import reach_line
from hba.schedule.mixing import Mixing
from hba.schedule.recipes import RECIPES
from hba.schedule.schedule import Schedule
from hba.schedule.summary import (
    band,
    changes,
    copies_of,
    key_epochs,
    reach,
    spaced,
    start_of,
    summarize,
    summarize_regularizers,
    task_of_schedule,
    used_operations,
)
from hba.training.mixing import draw_shares

N_DRAWS = 100_000


def schedule_of(
    names: list[str], rows: list[list[float]], copies: int = 1, **provenance: Any
) -> Schedule:
    space = SearchSpace(
        tuple(OPERATIONS[name] for name in names),
        copies,
        count_probabilities=(0.5, 0.5),
    )
    return Schedule(space, np.array(rows), provenance=provenance)


ROTATE_TWICE = schedule_of(
    ["Rotate"],
    [[0.0, 30.0, 0.0, 0.0], [0.2, 15.0, 0.6, 3.0], [1.0, 30.0, 0.5, 15.0]],
    copies=2,
)
"""Columns: probability and magnitude of copy 1, of copy 2; range [0, 30] degrees, 0
does nothing.
"""


def test_epochs_are_chosen_with_both_ends() -> None:
    for epochs, expected in (
        (1, (0,)),
        (2, (0, 1)),
        (3, (0, 1, 2)),
        (4, (0, 2, 3)),
        (300, (0, 150, 299)),
    ):
        assert key_epochs(schedule_of(["Invert"], [[0.5]] * epochs)) == expected
    assert (spaced(1, 5), spaced(3, 5), spaced(9, 3), spaced(100, 4)) == (
        [0],
        [0, 1, 2],
        [0, 4, 8],
        [0, 33, 66, 99],
    )


def test_means_are_over_copies_and_strength_is_of_each_copy() -> None:
    (summary,) = summarize(ROTATE_TWICE, (0, 1, 2))
    assert summary.probability == pytest.approx((0.0, 0.4, 0.75))
    assert summary.magnitude == pytest.approx((15.0, 9.0, 22.5))
    # 0.2 15/30 and 0.6 3/30; 1.0 30/30 and 0.5 15/30.
    assert summary.strength == pytest.approx((0.0, (0.1 + 0.06) / 2, (1.0 + 0.25) / 2))
    (summary,) = summarize(ROTATE_TWICE, (2, 0))
    assert summary.probability == pytest.approx((0.75, 0.0))
    row = [0.5, 12.0, 0.5, 18.0, 0.5, 1.45, 0.7, 0.62]
    by_name = {
        summary.operation.name: summary
        for summary in summarize(schedule_of(["Rotate", "Brightness"], [row], 2), (0,))
    }
    assert by_name["Rotate"].shown_magnitudes == ((15.0,),)
    assert by_name["Brightness"].shown_magnitudes == ((1.45, 0.62),), (
        "a mean would hide them"
    )
    np.testing.assert_array_equal(
        copies_of(ROTATE_TWICE, OPERATIONS["Rotate"], "magnitude")[1], [15.0, 3.0]
    )


def test_strength_is_how_far_a_magnitude_is_from_doing_nothing() -> None:
    for name, magnitude, strength in [
        # What does nothing is at an end of the range, or in the middle of [0.1, 1.9].
        ("ShearX", 0.3, 1.0), ("ShearX", 0.0, 0.0), ("TranslateY", 0.09, 0.2),
        ("Cutout", 0.05, 0.25), ("Brightness", 1.0, 0.0), ("Color", 0.1, 1.0),
        ("Contrast", 1.9, 1.0), ("Sharpness", 1.45, 0.5),
        # The higher the magnitude, the weaker: bits kept of 8, and levels below 256
        # that stay.
        ("Posterize", 8.0, 0.0), ("Posterize", 6.0, 0.25), ("Solarize", 0.0, 1.0),
        ("Solarize", 255.0, 1 / 256),
    ]:  # fmt: skip
        (summary,) = summarize(schedule_of([name], [[1.0, magnitude]]), (0,))
        assert summary.strength == pytest.approx((strength,), abs=1e-12), name
    (summary,) = summarize(schedule_of(["Equalize"], [[0.2, 0.4]], copies=2), (0,))
    assert summary.magnitude is None
    assert summary.strength == pytest.approx((0.3,))


def test_an_operation_of_any_epoch_is_used() -> None:
    space = SearchSpace()
    values = np.tile([low for low, _ in space.ranges], (5, 1))
    assert used_operations(Schedule(space, values)) == []
    values[1, space.names.index("Rotate.2.probability")] = 0.1
    assert [
        operation.name for operation in used_operations(Schedule(space, values))
    ] == ["Rotate"]


def test_a_band_is_one_spread_of_logits_to_either_side() -> None:
    schedule = schedule_of(["Rotate", "Invert"], [[0.2, 12.0, 0.5], [1.0, 30.0, 0.0]])
    schedule = Schedule(
        schedule.space,
        schedule.values,
        spread=np.array([[1.0, 0.5, 0.0], [1.0, 2.0, 3.0]]),
    )
    for sign, end in zip((-1, 1), band(schedule), strict=True):
        expected = [expit(logit(0.2) + sign), 30 * expit(logit(0.4) + 0.5 * sign), 0.5]
        np.testing.assert_allclose(end.values, [expected, [1.0, 30.0, 0.0]])


def test_the_strongest_at_the_last_epoch_asked_for_comes_first() -> None:
    # Columns: Invert's probability, Rotate's probability and magnitude, Posterize's,
    # Equalize's probability.
    rows = [[0.9, 0.5, 15.0, 1.0, 8.0, 0.1], [0.3, 1.0, 15.0, 1.0, 6.0, 0.4]]
    schedule = schedule_of(["Invert", "Rotate", "Posterize", "Equalize"], rows)
    for epochs, expected in (
        ((0, 1), [0.5, 0.4, 0.3, 0.25]),
        ((1, 0), [0.9, 0.25, 0.1, 0.0]),
    ):
        assert [
            summary.strength[-1] for summary in summarize(schedule, epochs)
        ] == pytest.approx(expected)


def test_changes_are_from_where_the_search_began() -> None:
    """All began at 5 % of their ranges: [0, 1], [0, 30] degrees, [0, 8] bits."""
    names = ["Equalize", "Rotate", "Posterize"]
    rows = [
        [0.3, 0.1, 2.0, 0.1, 7.6],
        [0.9, 0.05, 16.5, 0.85, 0.4],
    ]
    all_changes = changes(
        schedule_of(names, rows, settings={"initial_fraction": 0.05}), 1
    )
    assert [change.operation.name for change in all_changes] == names
    assert all_changes[0].probability == pytest.approx((0.05, 0.9))
    assert all_changes[1].shown_magnitudes == pytest.approx(np.array([[1.5], [16.5]]))
    for settings in (
        None,
        3,
        {},
        {"initial_fraction": "0.5"},
        {"initial_fraction": 2.0},
        {"initial_fraction": True},
    ):
        schedule = schedule_of(["Equalize"], [[0.2], [0.6]], settings=settings)
        assert start_of(schedule) is None
        assert changes(schedule, 1)[0].probability == pytest.approx((0.2, 0.6)), (
            "from the first epoch"
        )
    start = start_of(
        schedule_of(
            ["Rotate", "Invert"], [[0.5, 15.0, 0.5]], settings={"init": "randaugment"}
        )
    )
    assert start == pytest.approx([0.5, 9.0, 0.2])


def test_magnitudes_of_opposite_copies_are_shown_one_by_one() -> None:
    for name, before, after, shown in [
        ("Brightness", (1.27, 0.73), (1.45, 0.62), [[1.27, 0.73], [1.45, 0.62]]),
        ("Brightness", (0.9, 1.5), (1.2, 1.4), [[0.9, 1.5], [1.2, 1.4]]),
        # On one side before, on the other after; then one copy that does nothing.
        ("Brightness", (1.2, 1.4), (0.8, 0.4), [[1.3], [0.6]]),
        ("Brightness", (1.0, 1.4), (0.8, 1.0), [[1.2], [0.9]]),
        ("Rotate", (3.0, 9.0), (0.0, 30.0), [[6.0], [15.0]]),
    ]:
        rows = [
            [0.5, magnitudes[0], 0.5, magnitudes[1]] for magnitudes in (before, after)
        ]
        (change,) = changes(schedule_of([name], rows, copies=2), 1)
        assert change.shown_magnitudes == pytest.approx(np.array(shown))


def of_probabilities(
    probabilities: tuple[float, ...], copies: int, counts: tuple[float, ...]
) -> Schedule:
    """Of operations without magnitude, a probability for each copy."""
    names = ("AutoContrast", "Invert", "Equalize")[: len(probabilities) // copies]
    return Schedule(
        SearchSpace(tuple(OPERATIONS[name] for name in names), copies, counts),
        np.array([probabilities]),
    )


def enumerated(schedule: Schedule) -> tuple[list[float], list[float], float]:
    """Shares, how often each is applied, and share unchanged, by going through every
    order and every set that fires.
    """
    space = schedule.space
    shares = np.zeros(len(space.operations))
    applications = np.zeros(len(space.operations))
    unchanged = 0.0
    outcomes = exact_outcomes(schedule.values[0].tolist(), space.count_probabilities)
    for (applied, _), chance in outcomes.items():
        for operation in {slot // space.copies for slot in applied}:
            shares[operation] += chance
        for slot in applied:
            applications[slot // space.copies] += chance
        unchanged += chance * (not applied)
    return shares.tolist(), applications.tolist(), unchanged


def test_reach_is_that_of_all_orders_and_outcomes() -> None:
    for probabilities, copies, counts in [
        ((0.3, 0.8, 0.1), 1, (0.2, 0.3, 0.5)),
        ((0.3, 0.8, 0.5, 0.05), 2, (0.2, 0.3, 0.5)),
        ((1.0, 0.0, 0.6, 1.0), 2, (0.2, 0.3, 0.5)),
        ((0.3, 0.8, 0.5, 0.05), 2, (0.1, 0.0, 0.2, 0.7)),
        ((0.4,), 1, (0.0, 1.0)),
        ((0.4, 0.7), 2, (1.0,)),
    ]:
        schedule = of_probabilities(probabilities, copies, counts)
        result, (shares, applications, unchanged) = (
            reach(schedule, 0),
            enumerated(schedule),
        )
        assert list(result.shares.values()) == pytest.approx(shares)
        mean = sum(number * share for number, share in enumerate(result.numbers))
        assert (mean, result.numbers[0]) == pytest.approx(
            (sum(applications), unchanged)
        )


def test_reach_is_what_draws_say() -> None:
    space = SearchSpace(
        tuple(OPERATIONS.values())[:5], 2, (0.1, 0.2, 0.3, 0.4), searches_count=True
    )
    searched = random_schedule(space, 1)
    for schedule in (
        hba.load_policy("digits").only(150),
        searched,
        searched.with_spread(1.0),
    ):
        draw = schedule.policy(0).draw(N_DRAWS, seeded(0))
        operations = torch.where(
            draw.slots < 0, -1, draw.slots // schedule.space.copies
        )
        result = reach(schedule, 0)
        for number, share in enumerate(result.shares.values()):
            drawn = (operations == number).any(dim=1).double().mean().item()
            assert abs(drawn - share) < 5 * math.sqrt(share * (1 - share) / N_DRAWS)
        counted = (operations >= 0).sum(dim=1)
        numbers = [
            (counted == k).double().mean().item() for k in range(len(result.numbers))
        ]
        assert result.numbers == pytest.approx(numbers, abs=0.005)


def test_reach_outside_the_walk_is_what_draws_say() -> None:
    """Rotate alone competes for K. A batch that Mixup mixes is not mixed by CutMix."""
    schedule = staged()
    n_batches = 4000
    generator = seeded(1)
    result = reach(schedule, 1)
    space = schedule.space
    draw = schedule.policy(1).draw(N_DRAWS, generator)
    for number, slot in enumerate(space.slots):
        drawn = (draw.slots == number).any(dim=1).double().mean().item()
        assert result.shares[slot.operation.name] == pytest.approx(drawn, abs=0.005)
    assert result.shares["Rotate"] == result.numbers[1] == pytest.approx(0.375)
    none = (draw.slots < 0).all(dim=1).double().mean().item()
    assert (
        f"{100 * none:.0f} % of the images get none. 62 % of the batches are mixed."
        in reach_line(schedule, 1)
    )
    mixing = Mixing.of(space, schedule.values[1])
    shares = torch.stack(
        [draw_shares(mixing, 64, 64, generator) for _ in range(n_batches)]
    ).flatten(1)
    is_one = shares.amin(1) == shares.amax(1)
    by_mixup = (is_one & (shares[:, 0] < 1)).double().mean()
    by_cutmix = (~is_one).double().mean()
    assert (result.shares["Mixup"], result.shares["CutMix"]) == (0.25, 0.375)
    assert (by_mixup, by_cutmix) == pytest.approx((0.25, 0.375), abs=0.025)


def test_moves_of_some_classes_are_not_counted_as_those_of_all() -> None:
    recipe = RECIPES["overhead"].make()
    moves = ClassMoves(("a", "b"), (("HorizontalFlip", ((0, NO_CLASS),)),))
    space = dataclasses.replace(recipe.space, class_moves=moves)
    # VerticalFlip 0.5, QuarterTurn 0.75 and PaddedCrop 1.
    line = reach_line(dataclasses.replace(recipe, space=space), 0)
    assert "2.25 operations on average; 0 % of the images get none" in line
    assert "2.75 operations" in reach_line(recipe, 0)


def test_operations_outside_the_walk_have_strengths_and_changes() -> None:
    settings = {
        "initial_fraction": 0.5,
        "start": {"HorizontalFlip": 0.75, "Rotate.magnitude": 6.0},
    }
    strengths = {
        summary.operation.name: summary.strength[-1]
        for summary in summarize(staged(), (0, 1))
    }
    # The crop of at least half of the area is 0.5 / 0.92 of the way from the whole
    # image to its range's end.
    expected = {
        "HorizontalFlip": 0.25,
        "ResizedCrop": 0.5 * 0.5 / 0.92,
        "Rotate": 0.75 * 0.8,
        "Mixup": 0.125,
    }
    assert strengths == pytest.approx({**expected, "CutMix": 0.5})
    moved = {
        change.operation.name: change
        for change in changes(staged(settings=settings), 1)
    }
    assert moved["HorizontalFlip"].probability == pytest.approx((0.75, 0.25))
    assert moved["Rotate"].magnitude == pytest.approx((6.0, 24.0))
    assert moved["CutMix"].magnitude == pytest.approx((0.5, 1.0))
    for start in ("Rotate", {"Rotate": 2.0}, {"Color": 0.5}, {"Rotate": "much"}):
        assert start_of(staged(settings={**settings, "start": start})) is None, (
            "from another program"
        )


def test_regularizers_have_their_values_and_where_they_began() -> None:
    for schedule in (both(), alone()):
        summaries = summarize_regularizers(schedule)
        assert tuple(summary.hyperparameter.name for summary in summaries) == NAMES
        for summary, values, began in zip(
            summaries, np.array(OTHERS).T, (0.05, 5e-4, 0.05, 0.05), strict=True
        ):
            assert (summary.values, summary.began) == (tuple(values), began)
    assert summarize_regularizers(both().without_regularizers()) == ()
    row = {"Rotate.1.probability": 0.5, "dropout.fc1": 0.4, "weight_decay": 1e-3}
    elsewhere = both(settings={"init_from": {"schedule": "earlier", "values": row}})
    assert [summary.began for summary in summarize_regularizers(elsewhere)] == [
        0.4,
        0.001,
        0.05,
        0.05,
    ]
    assert reach(both(spread=0.5), 2) == reach(
        both(spread=0.5).without_regularizers(), 2
    )
    assert (reach(alone(), 0), changes(alone(), 2)) == (({}, (1.0,)), [])


def test_the_task_is_that_of_the_search_or_of_a_regularizer_that_others_lack() -> None:
    of_language = SearchSpace(regularizers=REGULARIZERS["activation"].hyperparameters)
    values = of_language.decode(of_language.initial())[None].numpy()
    assert task_of_schedule(Schedule(of_language, values)).name == "language"
    for named, expected in (
        ({}, "classification"),
        ({"task": "multi-label"}, "multi-label"),
        ({"task": "language"}, "language"),
        ({"task": ["unknown"]}, "classification"),
    ):
        schedule = schedule_of(["Rotate"], [[0.5, 15.0]], **named)
        assert task_of_schedule(schedule).name == expected
