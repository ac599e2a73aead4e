"""Draws around a row: means and quantiles by scipy, and where there is no spread
nothing is another.
"""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from random_inputs import seeded
from scipy.integrate import trapezoid
from scipy.special import expit, logit
from scipy.stats import norm
from torch import Tensor

from hba.operations import OPERATIONS
from hba.policy.draw import (
    BatchSample,
    SampleTrace,
    draw_with_trace,
    mean_probabilities,
)
from hba.policy.module import Policy
from hba.policy.space import SearchSpace
from hba.policy.spaces import SPACES, search_space
from hba.schedule.schedule import Schedule
from hba.training.augmentation import ScheduleAugmentation

N_DRAWS = 30_000
SIGMAS = 5.0
COUNTED = search_space(searches_count=True)
ROTATE = SearchSpace((OPERATIONS["Rotate"],), copies=1, count_probabilities=(0.0, 1.0))


def row_of(
    space: SearchSpace, seed: int = 0, dtype: torch.dtype = torch.float32
) -> Tensor:
    return space.decode(torch.randn(space.n, generator=seeded(seed), dtype=dtype))


def equal_draws(first: BatchSample, second: BatchSample) -> bool:
    return all(
        torch.equal(getattr(first, name), getattr(second, name))
        for name in ("slots", "magnitudes", "positions")
    )


def draw_around(
    space: SearchSpace,
    values: Tensor,
    n_images: int,
    generator: torch.Generator,
    spread: Tensor | None,
) -> tuple[BatchSample, SampleTrace]:
    return draw_with_trace(
        space, mean_probabilities(space, values, spread), n_images, generator, spread
    )


def means_by_scipy(probabilities: Tensor, spread: float) -> NDArray[np.float64]:
    """By a trapezoidal rule, which is exact to rounding where the ends vanish."""
    x = np.linspace(-12, 12, 2001)
    logits = logit(probabilities.double().numpy())[:, None]
    return trapezoid(expit(logits + spread * x) * norm.pdf(x), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("spread", [0.25, 1.0, 2.0, 3.0])
def test_mean_probabilities_are_those_of_scipy_and_magnitudes_stay(
    spread: float, dtype: torch.dtype
) -> None:
    values = row_of(COUNTED, dtype=dtype)
    means = mean_probabilities(COUNTED, values, torch.tensor(spread, dtype=dtype))
    assert means.dtype == dtype
    probabilities = COUNTED.probability_columns(values.device)
    expected = values.clone()
    expected[probabilities] = torch.from_numpy(
        means_by_scipy(values[probabilities], spread)
    ).to(dtype)
    is_magnitude = torch.ones(COUNTED.n, dtype=torch.bool)
    is_magnitude[probabilities] = False
    assert torch.equal(means[is_magnitude], values[is_magnitude])
    torch.testing.assert_close(means, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("spread", [0.5, 3.0])
@pytest.mark.parametrize("space", [*SPACES.values(), COUNTED], ids=[*SPACES, "counted"])
def test_what_is_at_an_end_of_its_range_stays_there(
    space: SearchSpace, spread: float
) -> None:
    for infinite in (math.inf, -math.inf):
        values = space.decode(torch.full((space.n,), infinite))
        assert torch.equal(
            mean_probabilities(space, values, torch.full((space.n,), spread)), values
        )
    ends = space.decode(torch.full((space.n,), math.inf))
    draw = draw_around(space, ends, 500, seeded(0), torch.full((space.n,), spread))[0]
    without_spread = draw_with_trace(space, ends, 500, seeded(0))[0]
    assert (draw.slots >= 0).any()
    assert torch.equal(draw.slots, without_spread.slots)
    assert torch.equal(draw.magnitudes, without_spread.magnitudes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("magnitude", "spread"), [(12.0, 1.0), (1.5, 2.0), (29.0, 0.5)]
)
def test_the_logits_of_magnitudes_are_normal_around_that_of_the_row(
    magnitude: float, spread: float, dtype: torch.dtype
) -> None:
    row = torch.tensor([1.0, magnitude], dtype=dtype)
    draw = draw_around(
        ROTATE, row, N_DRAWS, seeded(0), torch.full((2,), spread, dtype=dtype)
    )[0]
    magnitudes = draw.magnitudes[:, 0]
    assert magnitudes.dtype == dtype
    assert (magnitudes.abs() <= 30).all()
    bound = 0.5 * SIGMAS / math.sqrt(N_DRAWS)
    assert abs((magnitudes < 0).double().mean().item() - 0.5) < bound, (
        "signs are drawn as ever"
    )
    for quantile in (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99):
        below = 30 * expit(logit(magnitude / 30) + spread * norm.ppf(quantile))
        share = (magnitudes.abs() < below).double().mean().item()
        assert abs(share - quantile) < SIGMAS * math.sqrt(
            quantile * (1 - quantile) / N_DRAWS
        )


@pytest.mark.parametrize(
    "space",
    [*SPACES.values(), COUNTED, SearchSpace(copies=1)],
    ids=[*SPACES, "k", "one"],
)
@pytest.mark.parametrize("batched", [False, True])
def test_a_spread_of_0_is_none_to_the_last_bit(
    space: SearchSpace, batched: bool
) -> None:
    row = row_of(space).expand(60, -1) if batched else row_of(space)
    generators = seeded(3), seeded(3)
    bare, walk = draw_with_trace(space, row, 60, generators[0])
    around, walk_around = draw_around(
        space, row, 60, generators[1], torch.zeros_like(row)
    )
    assert equal_draws(bare, around)
    for name in ("visited", "fired", "count"):
        assert torch.equal(getattr(walk, name), getattr(walk_around, name))


def policy_of(seed: int = 0, width: float = 0.75) -> Policy:
    return Policy(
        COUNTED, row_of(COUNTED, seed), spread=torch.full((COUNTED.n,), width)
    )


def draws_as(
    policy: Policy, space: SearchSpace, values: Tensor, spread: Tensor | None
) -> bool:
    return equal_draws(
        policy.draw(50, seeded(5)), draw_around(space, values, 50, seeded(5), spread)[0]
    )


def test_a_policy_draws_around_its_values_also_as_a_copy_and_of_another_type() -> None:
    policy = policy_of()
    # A Lightning module that makes its policy in each epoch loads its checkpoint before
    # the first one.
    assert not policy.state_dict()
    for other in (policy, copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        assert draws_as(other, COUNTED, policy.values, policy.spread)
    double = copy.deepcopy(policy).double()
    assert double.values.dtype == torch.float64
    assert double.draw(50, seeded(5)).magnitudes.dtype == torch.float64


def test_an_epoch_of_a_training_draws_as_the_policy_of_its_row() -> None:
    values = np.stack([row_of(COUNTED, seed).double().numpy() for seed in range(3)])
    schedule = Schedule(COUNTED, values, spread=np.array([[0.0], [0.5], [1.0]]))
    images = torch.rand(20, 3, 8, 8, generator=seeded(6))
    for epoch, augment in enumerate(
        ScheduleAugmentation(schedule).by_epoch(3, torch.zeros(0))
    ):
        policy = schedule.policy(epoch)
        assert torch.equal(augment(images, seeded(7)), policy(images, seeded(7)))
        spread = None if epoch == 0 else torch.full((COUNTED.n,), epoch / 2)
        assert draws_as(
            policy, COUNTED, torch.tensor(values[epoch], dtype=torch.float32), spread
        )
