"""A searched K and a searched spread: how K is drawn, and the scores of both, against closed forms and autograd."""

import math

import pytest
import torch
from each import each
from search_problems import seeded
from test_expected_score import random_trial

from hba.algorithms.scores import AugmentedBatch, expected_score, expected_spread_score
from hba.operations import OPERATIONS
from hba.policy.draw import draw_with_trace
from hba.policy.space import SearchSpace

SIGMAS = 5.0
N_DRAWS = 40_000


def counted(*names: str, count_probabilities: tuple[float, ...] = (0.2, 0.3, 0.4, 0.1)) -> SearchSpace:
    operations = tuple(OPERATIONS[name] for name in names)
    return SearchSpace(operations, 2, count_probabilities, searches_count=True)


def shares_by_hand(p: list[float]) -> list[float]:
    """Of K, where each image is asked for one more until the answer is no."""
    shares, reached = [], 1.0
    for one in p:
        shares.append(reached * (1 - one))
        reached *= one
    return [*shares, reached]


@each("p", [[0.8, 0.6, 0.3], [0.5], [1.0, 0.0], [0.0, 0.9, 0.9], [1.0, 1.0, 1.0], [0.05, 0.95, 0.5]])
def test_k_is_drawn_by_breaking_sticks(p: list[float]) -> None:
    space = counted("Rotate", "Invert", count_probabilities=(1.0, *[0.0] * len(p)))
    values = torch.cat([torch.full((space.n - len(p),), 0.5), torch.tensor(p)])
    draw, walk = draw_with_trace(space, values, N_DRAWS, seeded(1))
    found = walk.count.flatten().bincount(minlength=len(p) + 1)
    for number, share in zip(found.tolist(), shares_by_hand(p), strict=True):
        assert abs(number - N_DRAWS * share) <= SIGMAS * math.sqrt(N_DRAWS * share * (1 - share))
    assert ((draw.slots >= 0).sum(1) <= walk.count[:, 0]).all()


def test_the_score_of_k_is_the_derivative_of_its_log_probability() -> None:
    space, sigma, generator = counted("Rotate", "Color"), 0.6, seeded(0)
    lam = torch.randn(space.n, generator=generator).requires_grad_()
    noise = torch.randn(200, space.n, generator=generator)
    logits = lam + sigma * noise
    values = space.decode(logits.detach())
    _, walk = draw_with_trace(space, values, 200, generator)
    assert set(walk.count.flatten().tolist()) == {0, 1, 2, 3}
    one_more = logits[:, -3:].sigmoid()
    reached = torch.cat([torch.ones(200, 1), one_more.cumprod(1)], dim=1)
    shares = torch.cat([reached[:, :-1] * (1 - one_more), reached[:, -1:]], dim=1)
    torch.testing.assert_close(shares.sum(1), torch.ones(200))
    rewards = torch.randn(200, generator=generator)
    (shares.gather(1, walk.count).log()[:, 0] * rewards).mean().backward()
    assert lam.grad is not None
    trial = AugmentedBatch(noise, noise, walk, values, noise, sigma)
    found = expected_score(space, trial, rewards)
    torch.testing.assert_close(found[-3:], lam.grad[-3:], rtol=1e-4, atol=1e-6)
    fixed = SearchSpace(space.operations, 2, space.count_probabilities)
    others = AugmentedBatch(noise, noise, walk, values[:, :-3], noise[:, :-3], sigma)
    torch.testing.assert_close(found[:-3], expected_score(fixed, others, rewards), rtol=0, atol=0)


def test_where_more_operations_are_worth_more_the_score_of_k_says_by_how_much() -> None:
    """Reward K: its mean is p1 + p1 p2, whose slopes by the logits are known."""
    space = counted("Invert", count_probabilities=(0.3, 0.3, 0.4))
    lam = torch.tensor([0.0, 0.0, 0.5, -0.4])

    samples, generator = [], seeded(7)
    for _ in range(60):
        noise, values = torch.zeros(2000, space.n), space.decode(lam).expand(2000, -1)
        _, walk = draw_with_trace(space, values, 2000, generator)
        trial = AugmentedBatch(noise, noise, walk, values, noise, 1.0)
        samples.append(expected_score(space, trial, walk.count[:, 0].float()))
    found = torch.stack(samples).double()
    first, second = lam[-2:].double().sigmoid().tolist()
    expected = torch.tensor([0.0, 0.0, first * (1 - first) * (1 + second), first * second * (1 - second)])
    errors = found.std(0) / math.sqrt(len(found))
    assert ((found.mean(0) - expected).abs() <= SIGMAS * errors).all()
    assert (expected[-2:] > 2 * SIGMAS * errors[-2:]).all()


@each("is_counted", [False, True])
def test_the_score_of_the_spread_is_the_derivative_of_the_log_density(is_counted: bool) -> None:
    """Of the normal distribution of each magnitude that was used, by the logarithm of its standard deviation."""
    space = SearchSpace((OPERATIONS["Rotate"], OPERATIONS["Invert"], OPERATIONS["Color"]), 2, searches_count=is_counted)
    sigma = 0.7
    trial, rewards = random_trial(space, sigma), torch.randn(7, generator=seeded(3))
    assert trial.walk.fired.any()
    log_sigma = torch.tensor(math.log(sigma), dtype=torch.float64, requires_grad=True)
    total = torch.zeros((), dtype=torch.float64)
    for image in range(7):
        for number, slot in enumerate(space.slots):
            if trial.walk.fired[image, number] and slot.magnitude is not None:
                drawn = sigma * trial.noise[image, slot.magnitude].double()
                log_density = torch.distributions.Normal(torch.zeros_like(drawn), log_sigma.exp()).log_prob(drawn)
                total = total + rewards[image] * log_density / 7
    total.backward()
    assert log_sigma.grad is not None
    found = expected_spread_score(space, trial, rewards)
    assert found.shape == ()
    assert found.item() == pytest.approx(log_sigma.grad.item(), rel=1e-4)


def test_the_mean_score_of_the_spread_is_the_slope_of_the_expected_reward() -> None:
    """Reward fired * x^2 of a normal x: E = p (m^2 + sigma^2), whose slope by log sigma is 2 p sigma^2."""
    space, sigma, samples, generator = SearchSpace((OPERATIONS["Rotate"],), 1, (0.0, 1.0)), 0.8, [], seeded(9)
    lam = torch.tensor([0.5, -0.9])
    for _ in range(60):
        noise = torch.randn(2000, 2, generator=generator)
        logits = lam + sigma * noise * torch.tensor([0.0, 1.0])
        values = space.decode(logits)
        draw, walk = draw_with_trace(space, values, 2000, generator)
        trial = AugmentedBatch(noise, noise, walk, values, noise, sigma)
        samples.append(expected_spread_score(space, trial, (draw.slots[:, 0] >= 0) * logits[:, 1].square()))
    found = torch.stack(samples).double()
    expected = 2 * torch.sigmoid(torch.tensor(0.5)).item() * sigma**2
    assert abs(found.mean().item() - expected) <= SIGMAS * found.std().item() / math.sqrt(60)
