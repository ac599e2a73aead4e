"""The score function of look-ahead: against plain loops, autograd and enumerated
expectations.
"""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from enumerated_walks import Outcome, exact_outcomes
from random_inputs import seeded
from search_steps import algorithm_of, begun, space_of
from torch import Tensor, nn
from torch.distributions import Bernoulli, Normal, kl_divergence

from hba.algorithms.scores import AugmentedBatch, divergence_curvature, expected_score
from hba.operations import OPERATIONS
from hba.policy.draw import draw_with_trace
from hba.policy.space import SearchSpace
from hba.policy.spaces import search_space

SIGMAS = 5.0
"""Standard errors that an estimate may be off; all seeds are fixed."""
WITHOUT_MAGNITUDES = ("Invert", "AutoContrast", "Equalize")


@pytest.mark.parametrize("searches_count", [False, True])
def test_the_score_is_the_derivative_of_the_log_probability_of_what_was_drawn(
    searches_count: bool,
) -> None:
    """Of the walk and of K, by the logits, and of the magnitudes that were used, by the
    means of their normals.
    """
    operations = tuple(OPERATIONS[name] for name in ("Rotate", "Invert", "Color"))
    space = SearchSpace(
        operations, 1, (0.2, 0.3, 0.4, 0.1), searches_count=searches_count
    )
    size = 200
    sigma = 0.6
    generator = seeded(0)
    lam = torch.randn(space.n, generator=generator).requires_grad_()
    noise = torch.randn(size, space.n, generator=generator)
    logits = lam + sigma * noise
    values = space.decode(logits.detach())
    _, walk = draw_with_trace(space, values, size, generator)
    probabilities = logits[:, [slot.probability for slot in space.slots]].sigmoid()
    total = (
        torch.where(walk.fired, probabilities.log(), (1 - probabilities).log())
        * walk.visited
    ).sum(1)
    log_density = Normal(lam, sigma).log_prob(logits.detach())
    with_magnitude = [
        number for number, slot in enumerate(space.slots) if slot.magnitude is not None
    ]
    magnitude_density = log_density[
        :, [space.slots[number].magnitude for number in with_magnitude]
    ]
    total = total + (magnitude_density * walk.fired[:, with_magnitude]).sum(1)
    if searches_count:
        assert set(walk.count.flatten().tolist()) == {0, 1, 2, 3}
        one_more = logits[:, -3:].sigmoid()
        reached = torch.cat([torch.ones(size, 1), one_more.cumprod(1)], dim=1)
        shares = torch.cat([reached[:, :-1] * (1 - one_more), reached[:, -1:]], dim=1)
        torch.testing.assert_close(shares.sum(1), torch.ones(size))
        total = total + shares.gather(1, walk.count).log()[:, 0]
    rewards = torch.randn(size, generator=generator)
    (total * rewards).mean().backward()
    score = expected_score(
        space, AugmentedBatch(noise, noise, walk, values, noise, sigma), rewards
    )
    torch.testing.assert_close(score, lam.grad, rtol=1e-4, atol=1e-6)


def value_of(applied: Outcome) -> float:
    """A reward for the slots applied: each has a worth, which the place and the other
    slot change.
    """
    worth = (1.0, -0.5, 0.3)
    return sum(
        worth[slot] * (1 + 0.5 * place) for place, slot in enumerate(applied)
    ) + 0.7 * (set(applied) == {0, 2})


def exact_expectation(
    probabilities: list[float], count_probabilities: tuple[float, ...]
) -> float:
    """Of value_of, over all orders, all firings and all K."""
    outcomes = exact_outcomes(probabilities, count_probabilities)
    return sum(chance * value_of(applied) for (applied, _), chance in outcomes.items())


def batches_of_scores(
    space: SearchSpace,
    lam: Tensor,
    sigma: float,
    value: Callable[[Any, Tensor], Tensor],
    n_batches: int = 60,
) -> Tensor:
    """The estimated gradient of each of many batches of 2000, for rewards by draw and
    logits.
    """
    generator = seeded(7)
    scores = []
    for _ in range(n_batches):
        noise = torch.randn(2000, space.n, generator=generator)
        logits = lam + sigma * noise
        values = space.decode(logits)
        draw, walk = draw_with_trace(space, values, 2000, generator)
        trial = AugmentedBatch(noise, noise, walk, values, noise, sigma)
        scores.append(expected_score(space, trial, value(draw, logits)))
    return torch.stack(scores).double()


def assert_mean(samples: Tensor, expected: Tensor) -> None:
    """Within standard errors, which are small enough to tell the expected from zero."""
    errors = samples.std(0) / math.sqrt(len(samples))
    assert ((samples.mean(0) - expected).abs() <= SIGMAS * errors).all(), (
        samples.mean(0),
        expected,
        errors,
    )
    assert (expected.abs().max() > 2 * SIGMAS * errors).all()


@pytest.mark.parametrize(
    ("logits", "count_probabilities"),
    [((0.4, -1.0, 1.5), (0.2, 0.3, 0.5)), ((-2.0, 0.0, 2.0), (0.0, 1.0))],
)
def test_its_mean_is_the_gradient_of_the_exactly_expected_reward(
    logits: tuple[float, ...], count_probabilities: tuple[float, ...]
) -> None:
    space = space_of(*WITHOUT_MAGNITUDES, count_probabilities=count_probabilities)
    lam = torch.tensor(logits)
    small = 1e-5
    expected = torch.zeros(3).double()
    for slot in range(3):
        shift = small * torch.eye(3)[slot].double()
        plus, minus = (
            exact_expectation(
                torch.sigmoid(lam.double() + sign * shift).tolist(), count_probabilities
            )
            for sign in (1, -1)
        )
        expected[slot] = (plus - minus) / (2 * small)

    def value(draw: Any, _: Tensor) -> Tensor:
        return torch.tensor(
            [
                value_of(tuple(slot for slot in row if slot >= 0))
                for row in draw.slots.tolist()
            ]
        )

    assert_mean(batches_of_scores(space, lam, 0.0, value), expected)


N_DRAWS = 40_000


@pytest.mark.parametrize("p", [[0.8, 0.6, 0.3], [1.0, 0.0], [0.0, 0.9, 0.9]])
def test_k_is_drawn_by_breaking_sticks(p: list[float]) -> None:
    operations = (OPERATIONS["Rotate"], OPERATIONS["Invert"])
    space = SearchSpace(operations, 2, (1.0, *[0.0] * len(p)), searches_count=True)
    values = torch.cat([torch.full((space.n - len(p),), 0.5), torch.tensor(p)])
    draw, walk = draw_with_trace(space, values, N_DRAWS, seeded(1))
    counts = walk.count.flatten().bincount(minlength=len(p) + 1)
    # Each image is asked for one more until the answer is no.
    shares = -torch.tensor([1.0, *p, 0.0], dtype=torch.float64).cumprod(0).diff()
    for number, share in zip(counts.tolist(), shares.tolist(), strict=True):
        assert abs(number - N_DRAWS * share) <= SIGMAS * math.sqrt(
            N_DRAWS * share * (1 - share)
        )
    assert ((draw.slots >= 0).sum(1) <= walk.count[:, 0]).all()


@pytest.mark.parametrize(
    "space",
    [SearchSpace(), search_space(searches_count=True)],
    ids=["fixed K", "searched K"],
)
def test_it_is_the_gradient_of_the_divergences_of_all_decisions_that_were_made(
    space: SearchSpace,
) -> None:
    sigma = 0.6
    size = 9
    generator = seeded(1)
    start = torch.randn(space.n, generator=generator)
    lam = (start + torch.randn(space.n, generator=generator)).requires_grad_()
    noise = sigma * torch.randn(size, space.n, generator=generator)
    values = space.decode(lam.detach() + noise)
    _, walk = draw_with_trace(space, values, size, generator)
    probability_divergence = kl_divergence(
        Bernoulli(logits=lam + noise), Bernoulli(logits=start + noise)
    )
    magnitude_divergence = kl_divergence(Normal(lam, sigma), Normal(start, sigma))
    total = torch.zeros(())
    for image in range(size):
        for number, slot in enumerate(space.slots):
            total = (
                total
                + probability_divergence[image, slot.probability]
                * walk.visited[image, number]
            )
            if slot.magnitude is not None:
                total = (
                    total
                    + magnitude_divergence[slot.magnitude] * walk.fired[image, number]
                )
        if space.searches_count:
            # Asked for a first one always, for a second one if a first was wanted, and
            # so on.
            for k in range(min(int(walk.count[image]) + 1, space.max_count)):
                total = (
                    total + probability_divergence[image, space.n - space.max_count + k]
                )
    (total / size).backward()
    trial = AugmentedBatch(noise, noise, walk, values, noise / sigma, sigma)
    gradient = divergence_curvature(space, trial) * (lam.detach() - start)
    assert lam.grad is not None
    torch.testing.assert_close(gradient, lam.grad, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("algorithm", ["lookahead", "joint"])
def test_in_a_search_a_decision_comes_to_rest_at_its_worth_over_the_weight(
    algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rewards in standard deviations, and a weight in the same."""
    worth = 0.5
    weight = 0.4
    space = SearchSpace(
        (OPERATIONS["Invert"],), copies=1, count_probabilities=(0.0, 1.0)
    )
    settings: dict[str, Any] = {
        "algorithm": algorithm,
        "divergence_weight": weight,
        "lambda_betas": (0.9, 0.999),
    }
    settings |= {"count": "fixed", "reward_draws": 1, "strength_learning_rate": 0.0}
    network = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3 * 64, 2))
    problem, state = begun(space, network=network, **settings)
    algorithm_now = algorithm_of(problem)

    def plant_rewards(trial: AugmentedBatch, _: Tensor) -> Tensor:
        return worth * trial.walk.fired[:, 0].float()

    monkeypatch.setattr(
        type(algorithm_now),
        "standardized",
        lambda _, trial, rewards: plant_rewards(trial, rewards),
    )
    images, labels = state.train_stream.next()
    places = []
    for _ in range(240):
        trial = algorithm_now.augmented(
            problem, state, images.repeat(30, 1, 1, 1), labels.repeat(30)
        )
        if algorithm == "lookahead":
            algorithm_now.update_lambda(problem, state, (None, None), trial)
        else:
            gradient = algorithm_now.gradient_by(
                problem, state, trial, *state.mover.val_stream.next()
            )
            algorithm_now.move_lambda(problem, state, gradient)
        places.append((state.lam.detach() - state.mover.start).item())
    assert sum(places[-120:]) / 120 == pytest.approx(worth / weight, abs=0.15)
