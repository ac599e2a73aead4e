"""The share of images that an operation reaches: against every outcome of small walks, and against draws."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import expit, logit
from scipy.stats import norm

import hba
from hba.operations import OPERATIONS
from hba.policy.draw import draw_operations
from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule
from hba.schedule.summary import applied_per_image, numbers_applied, reach

N_DRAWS = 200_000


def schedule_of(
    probabilities: tuple[float, ...], copies: int, count_probabilities: tuple[float, ...] = (0.2, 0.3, 0.5)
) -> Schedule:
    """Of as many operations without magnitude as there are probabilities for, a copy each."""
    names = ("AutoContrast", "Invert", "Equalize")[: len(probabilities) // copies]
    space = SearchSpace(tuple(OPERATIONS[name] for name in names), copies, count_probabilities)
    return Schedule(space, np.array([probabilities]))


def enumerated(schedule: Schedule) -> tuple[list[float], list[float], float]:
    """Shares, how often each is applied, and share unchanged, by going through every order and every set that fires."""
    space, values = schedule.space, schedule.values[0]
    n = space.n_slots
    shares, applications, unchanged = np.zeros(len(space.operations)), np.zeros(len(space.operations)), 0.0
    for count, chance in enumerate(space.count_probabilities):
        for order in itertools.permutations(range(n)):
            for fires in itertools.product((False, True), repeat=n):
                weight = chance / math.factorial(n)
                weight *= math.prod(p if fired else 1 - p for p, fired in zip(values, fires, strict=True))
                applied = [slot for slot in order if fires[slot]][:count]
                for operation in {slot // space.copies for slot in applied}:
                    shares[operation] += weight
                for slot in applied:
                    applications[slot // space.copies] += weight
                unchanged += weight * (not applied)
    return shares.tolist(), applications.tolist(), unchanged


@pytest.mark.parametrize(
    ("probabilities", "copies", "counts"),
    [
        ((0.3, 0.8, 0.1), 1, (0.2, 0.3, 0.5)),
        ((0.3, 0.8, 0.5, 0.05), 2, (0.2, 0.3, 0.5)),
        ((1.0, 0.0, 0.6, 1.0), 2, (0.2, 0.3, 0.5)),
        ((0.3, 0.8, 0.5, 0.05), 2, (0.0, 1.0)),
        ((0.3, 0.8, 0.5, 0.05), 2, (0.1, 0.0, 0.2, 0.7)),
        ((0.4,), 1, (0.0, 1.0)),
        ((0.4, 0.7), 2, (1.0,)),
    ],
)
def test_shares_are_those_of_all_orders_and_outcomes(
    probabilities: tuple[float, ...], copies: int, counts: tuple[float, ...]
) -> None:
    schedule = schedule_of(probabilities, copies, counts)
    found, (shares, applications, unchanged) = reach(schedule, 0), enumerated(schedule)
    assert list(found.shares) == [operation.name for operation in schedule.space.operations]
    assert list(found.shares.values()) == pytest.approx(shares)
    assert (found.per_image, found.unchanged) == pytest.approx((sum(applications), unchanged))
    assert list(applied_per_image(schedule, 0).values()) == pytest.approx(applications)


@pytest.mark.parametrize("epoch", [0, 150, 299])
def test_the_shipped_schedule_reaches_as_many_images_as_draws_say(epoch: int) -> None:
    schedule = hba.load_policy("digits")
    values = torch.tensor(schedule.values[epoch], dtype=torch.float32)
    draw = draw_operations(schedule.space, values, N_DRAWS, torch.Generator().manual_seed(epoch))
    operations = torch.where(draw.slots < 0, -1, draw.slots // schedule.space.copies)
    found = reach(schedule, epoch)
    for number, share in enumerate(found.shares.values()):
        drawn = (operations == number).any(dim=1).double().mean().item()
        assert abs(drawn - share) < 5 * math.sqrt(share * (1 - share) / N_DRAWS)
    assert (operations >= 0).sum(dim=1).double().mean().item() == pytest.approx(found.per_image, abs=0.01)
    assert (operations < 0).all(dim=1).double().mean().item() == pytest.approx(found.unchanged, abs=0.005)


def test_a_probability_of_two_thirds_is_a_ninth_of_the_images() -> None:
    """Of thirty slots that fire half of the time, at most two are applied."""
    space = SearchSpace()
    row = np.array([0.5 if name.endswith("probability") else sum(ends) / 2
                    for name, ends in zip(space.names, space.ranges, strict=True)])  # fmt: skip
    row[[space.names.index(f"ShearY.{copy}.probability") for copy in (1, 2)]] = 2 / 3
    found = reach(Schedule(space, row[None]), 0)
    assert found.shares["ShearY"] == pytest.approx(1 / 9, abs=0.005)
    assert found.per_image == pytest.approx(1.30, abs=0.001)
    assert found.unchanged == pytest.approx(0.20, abs=0.001)


def test_a_policy_that_does_nothing_reaches_nobody() -> None:
    found = reach(schedule_of((0.0, 0.0), 1), 0)
    assert (set(found.shares.values()), found.per_image, found.unchanged) == ({0.0}, 0.0, 1.0)


def test_a_spread_makes_probabilities_their_means_over_images() -> None:
    bare = schedule_of((0.3, 0.8, 0.5), 1)
    means = tuple(
        quad(lambda x, p=p: expit(logit(p) + 1.5 * x) * norm.pdf(x), -12, 12)[0] for p in bare.values[0].tolist()
    )
    found, expected = reach(bare.with_spread(1.5), 0), reach(schedule_of(means, 1), 0)
    assert list(found.shares.values()) == pytest.approx(list(expected.shares.values()), abs=1e-6)
    assert found.numbers == pytest.approx(expected.numbers, abs=1e-6)
    assert means[2] == pytest.approx(0.5)


@pytest.mark.parametrize("width", [0.0, 1.0])
def test_a_searched_k_reaches_as_many_images_as_draws_say(width: float) -> None:
    space = SearchSpace(tuple(OPERATIONS.values())[:5], 2, (0.1, 0.2, 0.3, 0.4), searches_count=True)
    low, high = np.array(space.ranges).T
    schedule = Schedule(space, low + (high - low) * np.random.default_rng(0).random((2, space.n))).with_spread(width)
    policy = schedule.policy(1)
    draw = policy.draw(N_DRAWS, torch.Generator().manual_seed(0))
    operations = torch.where(draw.slots < 0, -1, draw.slots // space.copies)
    found = reach(schedule, 1)
    for number, share in enumerate(found.shares.values()):
        drawn = (operations == number).any(dim=1).double().mean().item()
        assert abs(drawn - share) < 5 * math.sqrt(share * (1 - share) / N_DRAWS)
    counted = (operations >= 0).sum(dim=1)
    assert found.numbers == pytest.approx([(counted == k).double().mean().item() for k in range(4)], abs=0.005)
    assert numbers_applied(schedule, 1) == found.numbers
    assert sum(found.numbers) == pytest.approx(1)
