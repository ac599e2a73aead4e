"""The score function of look-ahead: against plain loops, autograd and enumerated expectations."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from each import each
from search_problems import seeded
from search_steps import space_of
from torch import Tensor

from hba.algorithms.scores import AugmentedBatch, expected_score
from hba.policy.draw import SampleTrace, draw_with_trace
from hba.policy.space import SearchSpace

SIGMAS = 5.0
"""Standard errors that an estimate may be off; all seeds are fixed."""
WITHOUT_MAGNITUDES = ("Invert", "AutoContrast", "Equalize")


def random_trial(space: SearchSpace, sigma: float, size: int = 7) -> AugmentedBatch:
    generator = seeded(2)
    visited = torch.rand(size, space.n_slots, generator=generator) < 0.7
    fired = visited & (torch.rand(size, space.n_slots, generator=generator) < 0.5)
    count = torch.randint(space.max_count + 1, (size, 1), generator=generator)
    values = torch.rand(size, space.n, generator=generator)
    noise = torch.randn(size, space.n, generator=generator)
    empty = torch.zeros(size)
    return AugmentedBatch(empty, empty, SampleTrace(visited, fired, count), values, noise, sigma)


@each("sigma", [0.7, 2.0])
def test_the_expected_score_is_the_sum_over_images_and_slots(sigma: float) -> None:
    space = space_of("Rotate", "Invert", "Color", copies=2)
    trial, rewards = random_trial(space, sigma), torch.randn(7, generator=seeded(3))
    expected = [0.0] * space.n
    for image in range(7):
        for number, slot in enumerate(space.slots):
            if not trial.walk.visited[image, number]:
                continue
            fired = bool(trial.walk.fired[image, number])
            score = (1.0 if fired else 0.0) - trial.values[image, slot.probability].item()
            expected[slot.probability] += rewards[image].item() * score / 7
            if fired and slot.magnitude is not None:
                score = trial.noise[image, slot.magnitude].item() / sigma
                expected[slot.magnitude] += rewards[image].item() * score / 7
    torch.testing.assert_close(expected_score(space, trial, rewards), torch.tensor(expected), rtol=1e-5, atol=1e-6)


def test_the_score_is_the_derivative_of_the_log_probability_of_what_was_drawn() -> None:
    """Of the walk, by the logits, and of the magnitudes that were used, by the means of their normal distributions."""
    space, sigma, generator = space_of("Rotate", "Invert", "Color"), 0.6, seeded(0)
    lam = torch.randn(space.n, generator=generator).requires_grad_()
    noise = torch.randn(50, space.n, generator=generator)
    logits = lam + sigma * noise
    values = space.decode(logits.detach())
    _, walk = draw_with_trace(space, values, 50, generator)
    at = [slot.probability for slot in space.slots]
    probabilities = torch.sigmoid(logits[:, at])
    log_walk = torch.where(walk.fired, probabilities.log(), (1 - probabilities).log()) * walk.visited
    drawn = logits.detach()
    log_density = torch.distributions.Normal(lam, sigma).log_prob(drawn)
    used = torch.stack([walk.fired[:, 0], walk.fired[:, 2]], dim=1)
    log_magnitudes = log_density[:, [slot.magnitude for slot in space.slots if slot.magnitude is not None]] * used
    rewards = torch.randn(50, generator=generator)
    ((log_walk.sum(1) + log_magnitudes.sum(1)) * rewards).mean().backward()
    empty = torch.zeros(50)
    trial = AugmentedBatch(empty, empty, walk, values, noise, sigma)
    torch.testing.assert_close(expected_score(space, trial, rewards), lam.grad, rtol=1e-4, atol=1e-6)


Applied = tuple[int, ...]


def value_of(applied: Applied) -> float:
    """A reward for the slots applied: each has a worth, which the place and the other slot change."""
    worth = (1.0, -0.5, 0.3)
    return sum(worth[slot] * (1 + 0.5 * place) for place, slot in enumerate(applied)) + 0.7 * (set(applied) == {0, 2})


def exact_expectation(probabilities: list[float], count_probabilities: tuple[float, ...]) -> float:
    """Of value_of, over all orders, all firings and all K."""
    n_slots, expected = len(probabilities), 0.0
    for order in itertools.permutations(range(n_slots)):
        for fires in itertools.product((False, True), repeat=n_slots):
            chance = 1 / math.factorial(n_slots)
            for fired, probability in zip(fires, probabilities, strict=True):
                chance *= probability if fired else 1 - probability
            in_order = tuple(slot for slot in order if fires[slot])
            for count, share in enumerate(count_probabilities):
                expected += chance * share * value_of(in_order[:count])
    return expected


def batches_of_scores(
    space: SearchSpace, lam: Tensor, sigma: float, value: Callable[[Any, Tensor], Tensor], n_batches: int = 60
) -> Tensor:
    """The estimated gradient of each of many batches of 2000, for rewards by draw and logits."""
    generator, found = seeded(7), []
    for _ in range(n_batches):
        noise = torch.randn(2000, space.n, generator=generator)
        logits = lam + sigma * noise
        values = space.decode(logits)
        draw, walk = draw_with_trace(space, values, 2000, generator)
        trial = AugmentedBatch(noise, noise, walk, values, noise, sigma)
        found.append(expected_score(space, trial, value(draw, logits)))
    return torch.stack(found).double()


def assert_mean(samples: Tensor, expected: Tensor) -> None:
    """Within standard errors, which are small enough to tell the expected from zero."""
    errors = samples.std(0) / math.sqrt(len(samples))
    assert ((samples.mean(0) - expected).abs() <= SIGMAS * errors).all(), (samples.mean(0), expected, errors)
    assert (expected.abs().max() > 2 * SIGMAS * errors).all()


@each("count_probabilities", [(0.2, 0.3, 0.5), (0.0, 1.0)])
@each("logits", [(0.4, -1.0, 1.5), (-2.0, 0.0, 2.0)])
def test_its_mean_is_the_gradient_of_the_exactly_expected_reward(
    logits: tuple[float, ...], count_probabilities: tuple[float, ...]
) -> None:
    space = space_of(*WITHOUT_MAGNITUDES, count_probabilities=count_probabilities)
    lam, small, expected = torch.tensor(logits), 1e-5, torch.zeros(3).double()
    for slot in range(3):
        shift = small * torch.eye(3)[slot].double()
        plus, minus = (
            exact_expectation(torch.sigmoid(lam.double() + sign * shift).tolist(), count_probabilities)
            for sign in (1, -1)
        )
        expected[slot] = (plus - minus) / (2 * small)

    def value(draw: Any, _: Tensor) -> Tensor:
        return torch.tensor([value_of(tuple(slot for slot in row if slot >= 0)) for row in draw.slots.tolist()])

    assert_mean(batches_of_scores(space, lam, 0.0, value), expected)


def test_with_noise_its_mean_is_the_closed_form_for_a_magnitude() -> None:
    """Reward fired * x^2 with x normal: E = E[p] (m^2 + sigma^2), and p the mean of a sigmoid of a normal number."""
    space, sigma = space_of("Rotate", count_probabilities=(0.0, 1.0)), 0.8
    probability, magnitude = space.slots[0].probability, space.slots[0].magnitude
    assert magnitude is not None
    lam = torch.zeros(2)
    lam[probability], lam[magnitude] = 0.5, -0.9
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    p = torch.sigmoid(0.5 + sigma * torch.tensor(nodes))
    shares = torch.tensor(weights / weights.sum())
    mean_p, mean_slope = (shares * p).sum(), (shares * p * (1 - p)).sum()
    expected = torch.zeros(2).double()
    expected[probability] = mean_slope * (0.81 + sigma**2)
    expected[magnitude] = mean_p * 2 * -0.9
    samples = batches_of_scores(
        space, lam, sigma, lambda draw, logits: (draw.slots[:, 0] >= 0) * logits[:, magnitude].square()
    )
    assert_mean(samples, expected)
