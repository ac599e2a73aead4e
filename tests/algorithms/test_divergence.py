"""How far a policy is from where its search began: against torch's divergences, and where rewards against it rest."""

import math
from typing import Any

import pytest
import torch
from each import each
from search_problems import seeded
from search_steps import algorithm_of, begun
from torch import Tensor, nn
from torch.distributions import Bernoulli, Normal, kl_divergence

from hba.algorithms.scores import AugmentedBatch, divergence_curvature, expected_score
from hba.operations import OPERATIONS
from hba.policy.draw import draw_with_trace
from hba.policy.space import SearchSpace
from hba.policy.spaces import search_space


@each("space", [SearchSpace(), search_space(searches_count=True)], ids=["fixed K", "searched K"])
def test_it_is_the_gradient_of_the_divergences_of_all_decisions_that_were_made(space: SearchSpace) -> None:
    sigma, size, generator = 0.6, 9, seeded(1)
    start = torch.randn(space.n, generator=generator)
    lam = (start + torch.randn(space.n, generator=generator)).requires_grad_()
    noise = sigma * torch.randn(size, space.n, generator=generator)
    values = space.decode(lam.detach() + noise)
    _, walk = draw_with_trace(space, values, size, generator)
    of_probabilities = kl_divergence(Bernoulli(logits=lam + noise), Bernoulli(logits=start + noise))
    of_magnitudes = kl_divergence(Normal(lam, sigma), Normal(start, sigma))
    total = torch.zeros(())
    for image in range(size):
        for number, slot in enumerate(space.slots):
            total = total + of_probabilities[image, slot.probability] * walk.visited[image, number]
            if slot.magnitude is not None:
                total = total + of_magnitudes[slot.magnitude] * walk.fired[image, number]
        if space.searches_count:
            # Asked for a first one always, for a second one if a first was wanted, and so on.
            for k in range(min(int(walk.count[image]) + 1, space.max_count)):
                total = total + of_probabilities[image, space.n - space.max_count + k]
    (total / size).backward()
    trial = AugmentedBatch(noise, noise, walk, values, noise / sigma, sigma)
    found = divergence_curvature(space, trial, sigma) * (lam.detach() - start)
    assert lam.grad is not None
    torch.testing.assert_close(found, lam.grad, rtol=1e-3, atol=1e-6)


@each(("worth", "weight"), [(0.5, 0.5), (-0.6, 0.3)])
def test_a_decision_comes_to_rest_at_its_worth_over_the_weight(worth: float, weight: float) -> None:
    """What is best by reward less weighted divergence is proportional to start times exp(reward / weight)."""
    space = SearchSpace((OPERATIONS["Invert"],), copies=1, count_probabilities=(0.0, 1.0))
    generator, n = seeded(4), 4000
    start = torch.tensor([-0.4])
    lam, places = start.clone(), []
    for _ in range(400):
        values = space.decode(lam).expand(n, -1)
        _, walk = draw_with_trace(space, values, n, generator)
        trial = AugmentedBatch(values, values, walk, values, torch.zeros(n, 1), 1.0)
        rewards = worth * walk.fired[:, 0].float()
        pull = weight * divergence_curvature(space, trial, 1.0) * (lam - start)
        lam = lam + 2.0 * (expected_score(space, trial, rewards) - pull)
        places.append(lam.item())
    assert sum(places[-200:]) / 200 == pytest.approx(start.item() + worth / weight, abs=0.1)
    assert math.dist(places[-1:], places[-2:-1]) < 0.2


@pytest.mark.parametrize("algorithm", ["lookahead", "hba-lookahead"])
def test_in_a_search_a_decision_comes_to_rest_at_its_worth_over_the_weight(
    algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rewards in standard deviations, and a weight in the same: whatever unit both are then turned into."""
    worth, weight, space = 0.5, 0.4, SearchSpace((OPERATIONS["Invert"],), copies=1, count_probabilities=(0.0, 1.0))
    settings: dict[str, Any] = {"algorithm": algorithm, "divergence_weight": weight, "lambda_betas": (0.9, 0.999)}
    settings |= {"count": "fixed", "reward_draws": 1, "strength_learning_rate": 0.0}
    network = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3 * 64, 2))
    task, state = begun(space, network=network, **settings)
    algorithm_now = algorithm_of(task)

    def planted(trial: AugmentedBatch, _: Tensor) -> tuple[Tensor, Tensor]:
        return worth * trial.walk.fired[:, 0].float(), torch.tensor(1.0)

    monkeypatch.setattr(type(algorithm_now), "standardized", lambda _, trial, rewards: planted(trial, rewards))
    images, labels = state.train_stream.next()
    update = algorithm_now.update_lambda if algorithm == "lookahead" else algorithm_now.update_lambda_by
    places = []
    for _ in range(300):
        trial = algorithm_now.augmented(task, state, images.repeat(30, 1, 1, 1), labels.repeat(30))
        update(task, state, trial)
        places.append((state.lam.detach() - state.mover.start).item())
    assert sum(places[-150:]) / 150 == pytest.approx(worth / weight, abs=0.15)
