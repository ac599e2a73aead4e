"""Race: the test of symmetries and the choice among forks, on images whose answer is
known.
"""

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from random_inputs import seeded
from search_problems import StopAfter, small_images
from torch import Tensor, nn

import hba
from hba.algorithms.race import Race, moved_by_lookahead
from hba.algorithms.race_findings import is_symmetry
from hba.algorithms.race_measures import (
    Answers,
    calibrated,
    class_gaps_of,
    gaps_of,
)
from hba.algorithms.race_policies import groups_of, row_of
from hba.data import LabelledImages, SearchData
from hba.errors import SettingsError
from hba.operations import OPERATIONS, STAGED
from hba.policy.class_moves import NO_CLASS
from hba.policy.space import SearchSpace
from hba.policy.spaces import search_space
from hba.tasks import Classification

FLIPS = ("HorizontalFlip", "VerticalFlip", "QuarterTurn")
SPACE = SearchSpace(
    (*(STAGED[name] for name in (*FLIPS, "Erase", "Mixup")), OPERATIONS["Invert"]),
    1,
    (0.5, 0.5),
)
SETTINGS: dict[str, Any] = {
    "algorithm": "race",
    "space": SPACE,
    "model": "wrn-10-1",
    "epochs": 8,
    "batch_size": 12,
    "device": "cpu",
    "learning_rate": 0.05,
    "price": 3.25,
}


def sides() -> SearchData:
    """The bright half is the left or the right one. A horizontal flip and half a turn
    exchange the classes, and a vertical flip keeps them.
    """
    return SearchData(
        "sides", ("left", "right"), small_images(96, seed=0), small_images(48, seed=1)
    )


@cache
def search(**options: Any) -> hba.SearchResult:
    return hba.search(sides(), **{**SETTINGS, **options})


def probability(result: hba.SearchResult, name: str) -> float:
    assert result.schedule is not None
    return float(
        result.schedule.values[-1][
            result.schedule.space.names.index(f"{name}.probability")
        ]
    )


def test_symmetries_of_the_images_are_found_and_others_left_out() -> None:
    result = search()
    assert [probability(result, name) for name in FLIPS] == [0.5, 0.5, 0.75]
    assert result.schedule is not None
    moves = result.schedule.space.class_moves
    assert moves is not None
    exchanged = {"left": "right", "right": "left"}
    assert moves.names() == {
        "HorizontalFlip": [exchanged],
        "QuarterTurn": [{}, exchanged, {}],
    }
    assert result.schedule.epochs == 1
    gaps = result.schedule.provenance["symmetries"]
    assert gaps["HorizontalFlip"][0] > 0.5
    assert abs(gaps["VerticalFlip"][0]) < 0.1


def test_it_takes_the_fork_with_the_least_loss_and_as_long_as_it_says() -> None:
    result = search()
    assert result.schedule is not None
    forks = result.schedule.provenance["forks"]
    assert list(forks) == [
        "no group",
        "RandAugment",
        "erasing",
        "mixing",
        "best 2",
        "best 3",
    ]
    assert len(result.metrics) == 2 + 3 * len(forks) + 6
    chosen = result.schedule.provenance["taken"]
    assert forks[chosen["fork"]][1] + forks[chosen["fork"]][2] <= 0
    assert chosen["operations"][:3] == [*FLIPS]
    assert forks["no group"][1:] == [0.0, 0.0]


@pytest.mark.slow
def test_lookahead_moves_the_values_of_what_is_taken_and_no_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Race, "winner", lambda self, losses, train_losses: 2)
    schedule = hba.search(sides(), **SETTINGS).schedule
    assert schedule is not None
    assert schedule.epochs == 8
    assert np.array_equal(schedule.values[:2], schedule.values[[2, 2]])
    assert not hba.search(
        sides(), **SETTINGS, out=tmp_path, callback=StopAfter(180)
    ).finished
    again = hba.search(sides(), **SETTINGS, out=tmp_path, resume=True).schedule
    assert again is not None
    assert np.array_equal(again.values, schedule.values)
    assert schedule.provenance["taken"]["operations"] == [*FLIPS, "erasing"]
    row = row_of(SPACE, schedule.provenance["taken"]["operations"])
    moves = moved_by_lookahead(SPACE, row)
    assert moves.any()
    assert np.array_equal(schedule.values[-1] == row.numpy(), ~moves.numpy())
    assert np.array_equal(
        schedule.spread[-1] > 0,
        moves.numpy() & np.array([name.endswith("magnitude") for name in SPACE.names]),
    )
    assert not moved_by_lookahead(SPACE, row_of(SPACE, ["VerticalFlip"])).any()


def test_each_fork_runs_through_the_rest_of_the_course_of_the_learning_rate() -> None:
    rates = [epoch["learning_rate"] for epoch in search().metrics]
    # Of a cosine from 0.05 over 8 epochs. Two of them are without augmentation, a fork
    # has three for the other six, and look-ahead six.
    cosine_rates = [
        0.05 * (1 + np.cos(np.pi * step / 8)) / 2
        for step in (1, *(2, 4, 6) * 6, 2, 3, 4, 5, 6, 7)
    ]
    assert rates[:-1] == pytest.approx(cosine_rates)


def test_at_a_price_of_one_only_symmetries_are_tested() -> None:
    result = search(price=1.0, tunes_strength=False)
    assert [probability(result, name) for name in FLIPS] == [0.5, 0.5, 0.75]
    assert probability(result, "Erase") == probability(result, "Invert.1") == 0
    assert result.schedule is not None
    assert result.schedule.provenance["forks"] == {}
    # The first two of the eight epochs of a training.
    assert len(result.metrics) == 2


@pytest.mark.slow
def test_a_search_that_was_stopped_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    for n_steps in (5, 16, 37):
        folder = tmp_path / str(n_steps)
        hba.search(sides(), **SETTINGS, out=folder, callback=StopAfter(n_steps))
        again = hba.search(
            sides(), **{**SETTINGS, "space": SPACE}, out=folder, resume=True
        )
        whole = search()
        assert again.schedule is not None
        assert whole.schedule is not None
        assert np.array_equal(again.schedule.values, whole.schedule.values)
        assert again.schedule.provenance["forks"] == whole.schedule.provenance["forks"]


def test_calibration_undoes_a_scale_of_the_logits() -> None:
    generator = seeded(0)
    logits = torch.randn(500, 4, generator=generator)
    labels = torch.randint(4, (500,), generator=generator)
    logits[torch.arange(500), labels] += 1

    def loss(logits: Tensor) -> float:
        return float(Classification().loss(calibrated(logits, labels), labels))

    assert loss(logits) == pytest.approx(loss(4 * logits), abs=1e-6)
    assert loss(logits) <= float(Classification().loss(logits, labels))


def test_a_move_that_exchanges_two_classes_of_many_has_a_large_gap() -> None:
    labels = torch.arange(400) % 40
    logits = 5.0 * F.one_hot(labels, 40)
    noise = 0.1 * torch.randn(400, 40, generator=seeded(0))
    exchanged = labels.clone()
    exchanged[labels == 0] = 1
    exchanged[labels == 1] = 0
    of_moves = logits + noise, 5.0 * F.one_hot(exchanged, 40) + noise
    kept, moved = gaps_of(
        Answers(logits, labels), [[Answers(of_move, labels)] for of_move in of_moves]
    )[:, 0].tolist()
    assert abs(kept) < 0.02
    assert moved > 0.5
    assert int((exchanged != labels).sum()) == 20


def test_a_move_that_exchanges_two_small_classes_of_masks_has_a_large_gap() -> None:
    masks = torch.zeros(20, 32, 32, dtype=torch.uint8)
    masks[:, 16:] = 1
    masks[:, 4:7, 2:5] = 2
    masks[:, 4:7, 27:30] = 3
    flipped = masks.flip(2)
    # The network knows a class that no mask has.
    logits = 8.0 * F.one_hot(masks.long(), 5).permute(0, 3, 1, 2)
    # The network tells the small classes by their side.
    kept, exchanged = gaps_of(
        Answers(logits, masks),
        [[Answers(logits.flip(3), flipped)], [Answers(logits, flipped)]],
    )[:, 0].tolist()
    assert abs(kept) < 0.02
    assert exchanged > 0.5


@pytest.mark.parametrize(("certainty", "holds"), [(0.88, True), (0.6, False)])
def test_what_a_move_costs_a_small_class_of_masks_is_a_share_of_what_was_learned(
    certainty: float, holds: bool
) -> None:
    masks = torch.zeros(20, 32, 32, dtype=torch.uint8)
    masks[:, 10:14, 20:25] = 1

    def sure_by(certainty: float) -> Tensor:
        """Logits with this probability of each pixel's own class."""
        own = F.one_hot(masks.long(), 2).permute(0, 3, 1, 2)
        return math.log(certainty / (1 - certainty)) * own

    unmoved, moved = Answers(sure_by(0.9), masks), Answers(sure_by(certainty), masks)
    assert is_symmetry(*gaps_of(unmoved, [[moved]])[0].tolist()) == holds


def noisy_answers(seed: int, n_images: int) -> tuple[Answers, Answers]:
    """Of images of three classes, and of moved ones that are harder to recognize."""
    labels = torch.arange(n_images) % 3
    right = F.one_hot(labels, 3)
    unmoved, moved = torch.randn(2, n_images, 3, generator=seeded(seed))
    return Answers(1.5 * right + unmoved, labels), Answers(0.5 * right + moved, labels)


def selected(answers: Answers, places: Tensor) -> Answers:
    return Answers(answers.logits[places], answers.labels[places])


def test_the_error_of_a_gap_is_that_of_the_jackknife() -> None:
    unmoved, moved = noisy_answers(0, 300)
    ((gap, error),) = gaps_of(unmoved, [[moved]]).tolist()
    numbers = torch.arange(300)
    gaps = []
    for left_out in numbers:
        kept = numbers != left_out
        others = gaps_of(selected(unmoved, kept), [[selected(moved, kept)]])
        gaps.append(float(others[0, 0]))
    assert error == pytest.approx((300 - 1) ** 0.5 * np.std(gaps), rel=0.05)
    assert gap > 0.4


def test_images_of_a_group_count_as_one() -> None:
    unmoved, moved = noisy_answers(1, 90)
    alone = gaps_of(unmoved, [[moved]])
    groups = torch.arange(90).repeat_interleave(4)
    repeated = selected(unmoved, groups), [[selected(moved, groups)]]
    torch.testing.assert_close(gaps_of(*repeated, groups), alone)
    assert gaps_of(*repeated)[0, 1] < 0.6 * alone[0, 1]


def test_what_a_class_loses_is_a_share_of_what_was_learned_about_it() -> None:
    labels = torch.arange(400) % 10

    def first_known_by(probability: float) -> Answers:
        """Of a network that guesses all classes but the first."""
        of_class = torch.full((10, 10), 0.1)
        of_class[0] = (1 - probability) / 9
        of_class[0, 0] = probability
        return Answers(of_class.log()[labels], labels)

    moves = [[first_known_by(0.86)], [first_known_by(0.1)]]
    kept, lost = gaps_of(first_known_by(0.9), moves)[:, 0].tolist()
    assert kept == pytest.approx(0.04 / 0.8, rel=1e-3)
    assert lost == pytest.approx(1.0, rel=1e-3)


def logits_for(labels: Tensor, n_classes: int) -> Tensor:
    """Logits of a network that is sure of these labels."""
    return 5.0 * F.one_hot(labels, n_classes)


def test_a_class_keeps_or_exchanges_its_label_and_a_rare_one_is_left_out() -> None:
    kept, first, second, lost, rare = range(5)
    labels = torch.tensor([kept, first, second, lost] * 20 + [rare])
    generator = seeded(2)
    moved_labels = labels.clone()
    moved_labels[labels == first] = second
    moved_labels[labels == second] = first
    is_lost = labels == lost
    moved_labels[is_lost] = torch.randint(5, (20,), generator=generator)
    gaps, results = class_gaps_of(
        logits_for(labels, 5), labels, [logits_for(moved_labels, 5)]
    )
    assert results.tolist() == [[kept, second, first, NO_CLASS, NO_CLASS]]
    assert gaps[0, :3, 0].abs().max() < 0.01
    # Images of the rare class stay in it, but there is only one.
    assert gaps[0, rare, 1] > 0.15


def test_a_class_that_becomes_one_which_stays_is_not_moved() -> None:
    labels = torch.arange(60) % 3
    moved_labels = torch.where(labels == 0, 1, labels)
    _, results = class_gaps_of(
        logits_for(labels, 3), labels, [logits_for(moved_labels, 3)]
    )
    assert results.tolist() == [[NO_CLASS, 1, 2]]


def test_a_turn_and_the_turn_back_must_have_the_same_result() -> None:
    labels = torch.arange(60) % 2
    kept = logits_for(labels, 2)
    exchanged = logits_for(1 - labels, 2)
    _, results = class_gaps_of(kept, labels, [kept, kept, exchanged])
    assert results.tolist() == [[NO_CLASS] * 2, [0, 1], [NO_CLASS] * 2]
    _, results = class_gaps_of(kept, labels, [exchanged, kept, exchanged])
    assert results.tolist() == [[1, 0], [0, 1], [1, 0]]


def test_symmetries_are_tested_on_images_held_out_of_separate_data() -> None:
    elsewhere = small_images(48, seed=1)
    # On these validation images the network knows nothing: their labels are exchanged.
    other = LabelledImages(elsewhere.images, 1 - elsewhere.labels)
    train = small_images(96, seed=0)
    data = SearchData("sides", ("left", "right"), train, other, has_own_val=True)
    schedule = hba.search(data, **{**SETTINGS, "tunes_strength": False}).schedule
    assert schedule is not None
    assert abs(schedule.provenance["symmetries"]["VerticalFlip"][0]) < 0.1
    assert schedule.provenance["n_held_out"] == 24


def test_a_few_images_of_separate_data_hold_none_out() -> None:
    few = small_images(6, seed=0)
    data = SearchData("few", ("left", "right"), few, few, has_own_val=True)
    settings = {**SETTINGS, "tunes_strength": False, "epochs": 2, "batch_size": 4}
    schedule = hba.search(data, **settings).schedule
    assert schedule is not None
    assert schedule.provenance["n_held_out"] == 0


def test_without_look_ahead_the_policy_is_that_of_the_best_fork() -> None:
    result = search(tunes_strength=False, epochs=4)
    assert result.schedule is not None
    assert result.schedule.epochs == 1
    assert result.schedule.provenance["legs"][-1][1] == 0
    assert not result.schedule.provenance["taken"]["is_moved"]
    chosen = result.schedule.provenance["taken"]["operations"]
    values = dict(
        zip(
            result.schedule.space.names,
            result.schedule.values[-1].tolist(),
            strict=True,
        )
    )
    assert all(
        values[f"{name}.probability"] > 0
        for name in chosen
        if f"{name}.probability" in values
    )


def test_the_walk_is_that_of_the_recipe_and_nothing_else_is_on() -> None:
    space = search_space("recipe", searches_count=True)
    recipe = hba.load_policy("randaugment")
    row = dict(zip(space.names, row_of(space, ["RandAugment"]).tolist(), strict=True))
    recipe_values = dict(
        zip(recipe.space.names, recipe.values[0].tolist(), strict=True)
    )
    assert {name: row[name] for name in recipe_values} == pytest.approx(recipe_values)
    started = dict(
        zip(
            space.names,
            row_of(space, ["zoom"], {"ResizedCrop": 0.5, "Erase": 0.2}).tolist(),
            strict=True,
        )
    )
    assert {
        name for name in row if name.endswith("probability") and started[name] > 0
    } - {*recipe_values} == {"ResizedCrop.probability"}
    assert started["ResizedCrop.probability"] == 0.5
    unexpected = {
        name
        for name, value in row.items()
        if name.endswith("probability") and value > 0
    } - recipe_values.keys()
    assert unexpected == set()


def test_a_fork_wins_by_more_than_its_standard_error_only() -> None:
    noise = torch.randn(5, 100, generator=seeded(1))
    losses = (
        1 + torch.tensor([0.0, -0.05, -0.5, torch.inf, -0.49])[:, None] + 0.5 * noise
    )

    def winner(forks: list[int], hardest: int) -> int:
        return forks[
            Race().winner(losses[forks], (torch.tensor(forks) == hardest).float())
        ]

    assert winner([0, 1, 2, 3], hardest=1) == winner([0, 2, 3], hardest=3) == 2
    assert winner([0, 1, 3], hardest=1) == 0
    # Of two that cannot be told apart, the one that is harder to fit.
    assert [winner([0, 1, 2, 3, 4], hardest=hardest) for hardest in (0, 2, 4)] == [
        2,
        2,
        4,
    ]
    assert Race().winner(torch.stack([losses[0], losses[0] - 1e-6]), torch.ones(2)) == 0


def test_what_it_cannot_decide_is_refused() -> None:
    assert list(groups_of(SPACE)) == ["RandAugment", "erasing", "mixing"]
    with pytest.raises(SettingsError, match="space stn"):
        hba.search(sides(), **{**SETTINGS, "space": "stn"})
    with pytest.raises(SettingsError, match="plateau"):
        hba.search(sides(), **{**SETTINGS, "learning_rate_schedule": "plateau"})
    for name, value in {"init": "randaugment", "sigma": 2.0}.items():
        with pytest.raises(
            SettingsError, match=f"{name} has no effect on the algorithm race"
        ):
            hba.search(sides(), **{**SETTINGS, "space": "recipe", name: value})
    network_of_one_side = nn.Sequential(nn.Flatten(), nn.Linear(3 * 24 * 24, 2))
    larger = [(torch.zeros(3, 24, 24), label % 2) for label in range(20)]
    with pytest.raises(SettingsError, match=r"smaller images: .* set smaller to 1"):
        hba.search(
            larger,
            **{**SETTINGS, "image_size": 24, "model": "wrn-10-1"},
            network=network_of_one_side,
        )
    with pytest.raises(SettingsError, match="at least 2 validation images"):
        hba.search(
            SearchData(
                "one",
                ("left", "right"),
                small_images(24, seed=0),
                small_images(1, seed=1),
            ),
            **SETTINGS,
        )
    images = small_images(96, seed=0)
    several = LabelledImages(images.images, torch.eye(2)[images.labels].bool())
    data = SearchData("several", ("left", "right"), several, several)
    assert hba.search(data, **{**SETTINGS, "epochs": 1}).finished
