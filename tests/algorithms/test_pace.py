"""When policy steps come, how far they carry, and what is said where they are too few."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import hba
from hba.algorithms import Rhythm
from hba.algorithms.lambda_optimizers import LAMBDA_OPTIMIZERS, largest_stride
from hba.algorithms.pace import TRIED_STEPS, Pace, advice_in, pace_in, policy_steps_in
from hba.policy_search.config import SearchConfig


def pace(**changed: Any) -> Pace:
    steps_per_epoch = changed.pop("steps_per_epoch", 2)
    return Pace(
        steps_per_epoch, Rhythm(**{"train_steps": 4, "in_a_row": 1, "warm_up_epochs": 0, "stride": 0.03, **changed})
    )


def counted(one: Pace, epochs: int) -> int:
    """Step by step, as the algorithms go."""
    n = 0
    for step in range(1, epochs * one.steps_per_epoch + 1):
        if step % one.rhythm.train_steps == 0 and step > one.rhythm.warm_up_of(epochs) * one.steps_per_epoch:
            n += one.rhythm.in_a_row
    return n


@pytest.mark.parametrize("steps_per_epoch", [1, 2, 3, 7])
@pytest.mark.parametrize("train_steps", [1, 2, 4, 5])
@pytest.mark.parametrize(
    ("val_steps", "warm_up_epochs"), [(1, 0), (0, 0), (2, 0), (1, 3), (3, 1), (1, None), (2, None)]
)
def test_policy_steps_are_those_that_come_by(
    steps_per_epoch: int, train_steps: int, val_steps: int, warm_up_epochs: int | None
) -> None:
    one = Pace(steps_per_epoch, Rhythm(train_steps, val_steps, warm_up_epochs, 0.03))
    assert [one.policy_steps(epochs) for epochs in range(20)] == [counted(one, epochs) for epochs in range(20)]


@pytest.mark.parametrize("warm_up_epochs", [0, 2, None])
@pytest.mark.parametrize(("from_epochs", "at_step"), [(4, 5), (4, 12), (6, 13), (20, 0)])
def test_policy_steps_of_a_lengthened_search_are_those_of_its_parts(
    warm_up_epochs: int | None, from_epochs: int, at_step: int
) -> None:
    one = Pace(3, Rhythm(2, 1, warm_up_epochs, 0.03))
    lengthened = [{"from_epochs": from_epochs, "to_epochs": 20, "at_step": at_step}]
    for done in range(at_step // 3, 21):
        expected = 0
        for step in range(1, 3 * done + 1):
            epochs = from_epochs if step <= at_step else 20
            expected += step % 2 == 0 and step > 3 * one.rhythm.warm_up_of(epochs)
        assert one.policy_steps(20, done, lengthened) == expected
        straight = sum(step % 2 == 0 and step > 3 * one.rhythm.warm_up_of(20) for step in range(1, 3 * done + 1))
        assert one.policy_steps(20, done) == straight


def test_a_search_that_is_half_done_has_had_no_policy_step_where_half_is_warm_up() -> None:
    one = Pace(3, Rhythm(1, 1, None, 0.03))
    assert [one.policy_steps(20, done) for done in (5, 10, 11, 20)] == [0, 0, 3, 30]
    assert one.next_policy_step(0, 20) == 31


def test_a_search_that_cannot_move_a_logit_by_one_is_too_short() -> None:
    """At 0.03 that takes 34 steps; 306 images in batches of 128 have two training steps an epoch."""
    assert " are few: " in str(pace().advice(2 * 34))
    assert " are too few: " in str(pace().advice(2 * 33))
    assert " are too few: " in str(pace(stride=0.003).advice(2 * 333))
    assert pace(stride=0.003).advice(2 * 334) is None
    # The middle is a logit of 0; after 6 steps it is 0.18 at most.
    farthest = 100 / (1 + math.exp(-0.18))
    assert pace().advice(12) == (
        "6 policy steps are too few: they can move a hyperparameter from the middle of its range to about "
        f"{farthest:.0f} % of it at most; use about 200 epochs, or a smaller batch size."
    )
    assert str(pace().advice(2)).startswith("1 policy step is too few: ")
    assert pace().advice(1) == (
        "No policy step comes in so few training steps: use about 200 epochs, or a smaller batch size."
    )


def test_fewer_policy_steps_than_planted_answers_were_found_with_are_called_few() -> None:
    """Where 6 of them go far enough: 48 come in 192 training steps."""
    one = pace(stride=0.18)
    assert one.advice(96) is None
    assert one.advice(95) == (
        "47 policy steps are few: the default search found planted answers with 48, and fewer were not tried; use "
        "about 96 epochs, or a smaller batch size."
    )
    assert " are few: " in str(one.advice(2 * 6))
    assert " are too few: " in str(one.advice(2 * 5))
    assert one.advice(96, policy_steps=47) is not None, "a lengthened search has fewer"
    assert str(pace(stride=1.0).advice(2)).startswith("1 policy step is few: ")


def test_nothing_is_known_of_how_often_a_population_selects() -> None:
    one = pace(stride=0.5, selects=True)
    assert one.advice(4) is None
    assert one.advised_epochs() == 12, "six jumps of half a logit"


def test_48_policy_steps_are_those_of_the_planted_answers() -> None:
    """Searches of 120 epochs, as docs/search-quality.md names them, of digits by the default search."""
    page = (Path(__file__).parents[2] / "docs" / "search-quality.md").read_text(encoding="utf-8")
    assert re.search(r"planted operation among the first three .* digits \| reached \| \d+/30 ", page)
    problems = "--problems rotated,shifted-x,inverted,darkened,none"
    assert re.search(rf"`python benchmarks/planted.py (--candidates \S+ )?{problems} --epochs 120`", page)
    config = SearchConfig.from_preset({}, "digits")
    assert config.train_size is not None
    steps = config.train_size // config.batch_size
    assert Pace(steps, config.algorithm.rhythm).policy_steps(120) == TRIED_STEPS


@pytest.mark.parametrize(
    "one",
    [pace(), pace(in_a_row=3), pace(warm_up_epochs=20), pace(steps_per_epoch=391, stride=0.003), pace(stride=1.0)],
)
def test_the_epochs_advised_are_the_fewest_that_move_a_logit_by_three_in_as_many_steps_as_were_tried(one: Pace) -> None:
    epochs = one.advised_epochs()
    far, many = [], []
    for some in (epochs - 1, epochs):
        steps = one.policy_steps(some)
        far.append(steps * one.rhythm.stride >= 3)
        many.append(steps >= 48)
    assert far[1]
    assert many[1]
    assert not (far[0] and many[0])
    assert one.advice(epochs) is None


@pytest.mark.parametrize(
    "one", [pace(warm_up_epochs=None), pace(warm_up_epochs=None, in_a_row=3, steps_per_epoch=5), pace(stride=1.0)]
)
def test_where_half_of_all_is_warm_up_twice_as_many_epochs_are_advised(one: Pace) -> None:
    one = replace(one, rhythm=replace(one.rhythm, warm_up_epochs=None))
    at_once = replace(one, rhythm=replace(one.rhythm, warm_up_epochs=0))
    assert one.advised_epochs() == 2 * at_once.advised_epochs()
    assert one.policy_steps(one.advised_epochs()) * one.rhythm.stride >= 3
    assert one.next_policy_step(0, 40) == at_once.next_policy_step(20 * one.steps_per_epoch, 40)


@pytest.mark.parametrize("one", [pace(in_a_row=0), pace(stride=0.0)])
def test_a_search_that_is_not_to_move_is_not_too_short(one: Pace) -> None:
    assert one.advice(1) is None


@pytest.mark.parametrize("algorithm", ["population", "hyper-population"])
def test_members_of_a_population_jump_by_what_they_explore_with(algorithm: str) -> None:
    config = SearchConfig.make({"algorithm": algorithm, "sigma": 0.5, "train_steps": 2})
    assert config.algorithm.rhythm == Rhythm(2, 1, 0, 0.5, selects=True)


@pytest.mark.parametrize("algorithm", ["hba", "fixed-noise", "lookahead", "hba-lookahead"])
def test_lambda_steps_go_by_their_learning_rate(algorithm: str) -> None:
    settings = {"train_steps": 3, "val_steps": 2, "warm_up_epochs": 1, "lambda_learning_rate": 0.25}
    settings |= {"strength_learning_rate": 0.0}
    config = SearchConfig.make({"algorithm": algorithm, **settings})
    assert config.algorithm.rhythm == Rhythm(3, 2, 1, 0.25)


@pytest.mark.parametrize("n_steps", [1, 2, 16, 300])
def test_steps_of_rmsprop_reach_as_far_as_pytorchs_along_one_gradient(n_steps: int) -> None:
    leaf = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimizer = LAMBDA_OPTIMIZERS["rmsprop"]([leaf], 0.01, (0.9, 0.999))
    for _ in range(n_steps):
        leaf.grad = torch.tensor(-0.7, dtype=torch.float64)
        optimizer.step()
    settings = {"algorithm": "delta-stn", "lambda_learning_rate": 0.01, "tune": "cutout"}
    rhythm = SearchConfig.make(settings).algorithm.rhythm
    assert rhythm.reach(n_steps) == pytest.approx(leaf.item(), rel=1e-6)
    # The fewest that go so far.
    assert rhythm.steps_to(leaf.item() * (1 - 1e-6)) == n_steps
    of_adam = SearchConfig.make({**settings, "algorithm": "stn"}).algorithm.rhythm
    assert of_adam.reach(7) == pytest.approx(0.07)
    assert of_adam.steps_to(0.065) == 7
    # Far behind the first ones, and for rates that never get there.
    assert abs(rhythm.steps_to(rhythm.reach(5000)) - 5000) <= 1
    assert replace(rhythm, stride=1e-30).steps_to(3.0) > 10**29


@pytest.mark.parametrize("algorithm", ["hba", "lookahead"])
def test_a_shared_coordinate_carries_a_hyperparameter_further(algorithm: str) -> None:
    rates = {"lambda_learning_rate": 0.25, "strength_learning_rate": 0.5}
    # By itself, by a shared coordinate, and a probability by half a step of its operation's.
    farthest = 0.25 + 0.5 + 0.25
    assert SearchConfig.make({"algorithm": algorithm, **rates}).algorithm.rhythm.stride == farthest
    settings = {**made()["settings"], **rates}
    assert pace_in(made(settings=settings)) == Pace(2, Rhythm(4, 1, 0, farthest))
    assert " are too few: " in str(advice_in(made()))
    assert " are few: " in str(advice_in(made(settings=settings))), "6 steps go far enough then"
    assert pace_in(made(settings={**settings, "strength_learning_rate": "much"})) is None


def test_the_pace_of_a_schedule_is_that_of_its_search() -> None:
    provenance = hba.load_policy("digits").provenance
    settings = provenance["settings"]
    stride = largest_stride(settings["lambda_learning_rate"], settings["strength_learning_rate"])
    assert pace_in(provenance) == Pace(2, Rhythm(5, 1, 0, stride))
    assert policy_steps_in(provenance) == 120
    assert advice_in(provenance) is None


def test_the_warm_up_of_a_schedule_may_be_half_of_all() -> None:
    settings = {**made()["settings"], "warm_up_epochs": None}
    assert pace_in(made(settings=settings)) == Pace(2, Rhythm(4, 1, None, 0.03))
    del settings["warm_up_epochs"]
    assert pace_in(made(settings=settings)) is None, "nobody knows"


def made(**changed: Any) -> dict[str, Any]:
    settings = {"train_steps": 4, "val_steps": 1, "warm_up_epochs": 0, "lambda_learning_rate": 0.03, "epochs": 12}
    return {"settings": settings, "steps_per_epoch": 2, "policy_steps": 6, "epochs_finished": 12, **changed}


def test_advice_is_for_a_finished_search_only() -> None:
    assert str(advice_in(made())).startswith("6 policy steps are too few: ")
    assert advice_in(made(epochs_finished=3)) is None


@pytest.mark.parametrize("damaged", [None, "2", 2.0, True, -1, 0, 10**12, [2], {}])
def test_a_damaged_provenance_says_nothing(damaged: Any) -> None:
    assert pace_in(made(steps_per_epoch=damaged)) is None
    assert pace_in(made(settings=damaged)) is None
    assert advice_in(made(epochs_finished=damaged)) is None
    if damaged != 0 or isinstance(damaged, bool):
        assert policy_steps_in(made(policy_steps=damaged)) is None
        assert pace_in(made(settings={**made()["settings"], "val_steps": damaged})) is None
    assert advice_in({}) is None
