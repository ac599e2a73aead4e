"""Gradients of what a policy does on average, estimated from what it drew: by the score function (Williams 1992).

Symbols as in lookahead.py. A draw is a walk of decisions: is one more operation wanted, does a slot fire, which
magnitude does it take. Each decision that was made has a score, the gradient of its log probability. Those that were
not made say nothing.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from hba.distributed.collectives import mean
from hba.policy.draw import SampleTrace
from hba.policy.space import SearchSpace


@dataclass(frozen=True)
class AugmentedBatch:
    """A batch as the network sees it, (B, C, H, W) and its labels, and how lambda decided what was done to it.

    values (B, n): of lambda + sigma epsilon, in natural units. noise (B, n): epsilon. sigma: its scale. draws: how many
    there are for each image; first one for every image, then the next for every image. regularizers: columns of those
    that act on images, as they do on all; None for none.
    """

    images: Tensor
    labels: Tensor
    walk: SampleTrace
    values: Tensor
    noise: Tensor
    sigma: float | Tensor
    draws: int = 1
    regularizers: Tensor | None = None


def expected_score(space: SearchSpace, batch: AugmentedBatch, rewards: Tensor) -> Tensor:
    """Gradient (n,) of the expected reward with respect to lambda, estimated from rewards (B,).

    A probability p = sigmoid(logit) of a slot that was visited has the score fired - p; a magnitude that was used the
    score of its normal distribution, epsilon / sigma. So has a regularizer of images; others have none.
    """
    columns = space.slot_columns(rewards.device)
    score = rewards.new_zeros(len(rewards), space.n + 1)
    if space.searches_count:
        wanted = torch.arange(space.max_count, device=rewards.device) < batch.walk.count
        unexpected = wanted.to(batch.values) - batch.values[:, columns.counts]
        score[:, columns.counts] = unexpected * _steps_asked(space, batch.walk)
    score[:, columns.probability] = (
        batch.walk.fired.to(batch.values) - batch.values[:, columns.probability]
    ) * batch.walk.visited
    # The column after the last is of slots without a magnitude.
    score[:, columns.magnitude] = _of_magnitudes(space, batch) / batch.sigma * batch.walk.fired
    if batch.regularizers is not None:
        score[:, batch.regularizers] = batch.noise[:, batch.regularizers] / batch.sigma
    return mean((rewards[:, None] * score).mean(dim=0)[: space.n])


def divergence_curvature(space: SearchSpace, batch: AugmentedBatch, sigma: float | Tensor) -> Tensor:
    """(n,): times the distance from a start (n,), the gradient with respect to lambda of how far what is drawn is from
    what the start would draw with noise of standard deviation sigma.

    It is the Kullback-Leibler divergence of each decision that the walks made, from the same decision at start: for a
    probability p its gradient is p (1 - p) (lambda - start), for a magnitude (lambda - start) / sigma^2. So the
    probability of what is worth r more than its absence comes to rest r / w logits from start, where rewards count less
    w times the divergence; a magnitude sigma^2 / w times the slope of the reward. Which decisions are made at all
    counts as given.
    """
    values, walk = batch.values, batch.walk
    columns = space.slot_columns(values.device)
    curvature = values.new_zeros(space.n + 1)
    if space.searches_count:
        p = values[:, columns.counts]
        curvature[columns.counts] = (_steps_asked(space, walk) * p * (1 - p)).mean(dim=0)
    p = values[:, columns.probability]
    curvature[columns.probability] = (walk.visited * p * (1 - p)).mean(dim=0)
    # The column after the last is of slots without a magnitude.
    curvature[columns.magnitude] = walk.fired.to(values).mean(dim=0) / sigma**2
    if batch.regularizers is not None:
        curvature[batch.regularizers] = 1 / sigma**2
    return mean(curvature[: space.n])


def expected_spread_score(space: SearchSpace, batch: AugmentedBatch, rewards: Tensor) -> Tensor:
    """Gradient () of the expected reward with respect to log sigma: a magnitude that was used has the score
    epsilon^2 - 1. What sigma does through probabilities is left out.
    """
    has_magnitude = space.slot_columns(rewards.device).magnitude < space.n
    score = (_of_magnitudes(space, batch).square() - 1) * (batch.walk.fired & has_magnitude)
    return mean((rewards * score.sum(dim=1)).mean())


def spread_divergence_gradient(space: SearchSpace, batch: AugmentedBatch, log_spread: Tensor) -> Tensor:
    """Gradient () of the divergence with respect to log sigma, where sigma is exp(log_spread) times what it was at the
    start: of a magnitude that was used sigma^2 / (sigma at the start)^2 - 1.
    """
    has_magnitude = space.slot_columns(log_spread.device).magnitude < space.n
    used = (batch.walk.fired & has_magnitude).sum(dim=1).to(batch.values).mean()
    return mean(used) * torch.expm1(2 * log_spread)


def _steps_asked(space: SearchSpace, walk: SampleTrace) -> Tensor:
    """(B, max_count): an image was asked for one more operation until it had K."""
    return torch.arange(space.max_count, device=walk.count.device) <= walk.count


def _of_magnitudes(space: SearchSpace, batch: AugmentedBatch) -> Tensor:
    """The noise on each slot's magnitude (B, number of slots), 0 where it has none."""
    padded = torch.cat([batch.noise, batch.noise.new_zeros(len(batch.noise), 1)], dim=1)
    return padded[:, space.slot_columns(batch.noise.device).magnitude]
