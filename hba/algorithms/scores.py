"""Score function estimates (Williams 1992) of gradients of expectations over the draws
of a policy.

Symbols as in lookahead.py. A draw is a sequence of decisions: whether the image gets
one more operation, whether a slot fires, and with which magnitude. Each decision that
was made has a score, the gradient of its log probability.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from hba.policy.draw import SampleTrace
from hba.policy.space import SearchSpace


class AugmentedBatch(NamedTuple):
    """Augmented images with their labels and draws.

    The first draws of all images come first.
    """

    images: Tensor
    """Images (B, C, H, W) as the network gets them."""
    labels: Tensor
    """Their labels."""
    walk: SampleTrace
    """The trace of their draws."""
    values: Tensor
    """lambda + sigma epsilon in natural units (B, n)."""
    noise: Tensor
    """epsilon (B, n)."""
    sigma: float
    """Standard deviation of the noise, in logits."""
    draws: int = 1
    """Number of draws per image."""
    regularizers: Tensor | None = None
    """Columns of the regularizers that act on images."""


def expected_score(
    space: SearchSpace, batch: AugmentedBatch, rewards: Tensor
) -> Tensor:
    """Gradient (n,) of the expected reward with respect to lambda.

    The score of a probability p = sigmoid(logit) is fired - p if the slot was visited.
    The score of a magnitude that was used, or of a regularizer on images, is that of
    its normal distribution, epsilon / sigma. All others are 0.

    Args:
        space: The search space.
        batch: The augmented images.
        rewards: Their rewards (B,).
    """
    columns = space.slot_columns(rewards.device)
    score = rewards.new_zeros(len(rewards), space.n + 1)
    if space.searches_count:
        is_asked = (
            torch.arange(space.max_count, device=rewards.device) < batch.walk.count
        )
        unexpected = is_asked.to(batch.values) - batch.values[:, columns.counts]
        score[:, columns.counts] = unexpected * _steps_asked(space, batch.walk)
    surprise = batch.walk.fired.to(batch.values) - batch.values[:, columns.probability]
    score[:, columns.probability] = surprise * batch.walk.visited
    # Slots without a magnitude use the column after the last, where the noise is 0.
    noise = pad(batch.noise, (0, 1))[:, columns.magnitude]
    score[:, columns.magnitude] = noise / batch.sigma * batch.walk.fired
    if batch.regularizers is not None:
        score[:, batch.regularizers] = batch.noise[:, batch.regularizers] / batch.sigma
    return (rewards[:, None] * score).mean(dim=0)[: space.n]


def divergence_curvature(space: SearchSpace, batch: AugmentedBatch) -> Tensor:
    """Curvature (n,) of the divergence of the policy from its start.

    Times lambda - start, it is the gradient. The divergence is the Kullback-Leibler
    divergence of each decision that was made from the same decision at the start with
    the same noise; the set of decisions that were made counts as given. For a
    probability p, the gradient is p (1 - p) (lambda - start); for a magnitude, (lambda
    - start) / sigma^2. With the weight w of the divergence, a magnitude settles sigma^2
    / w times the slope of the reward from the start (docs/method.md: probabilities).

    Args:
        space: The search space.
        batch: The augmented images.
    """
    values = batch.values
    walk = batch.walk
    columns = space.slot_columns(values.device)
    curvature = values.new_zeros(space.n + 1)
    if space.searches_count:
        p = values[:, columns.counts]
        curvature[columns.counts] = (_steps_asked(space, walk) * p * (1 - p)).mean(
            dim=0
        )
    p = values[:, columns.probability]
    curvature[columns.probability] = (walk.visited * p * (1 - p)).mean(dim=0)
    # Slots without a magnitude use the column after the last.
    curvature[columns.magnitude] = walk.fired.to(values).mean(dim=0) / batch.sigma**2
    if batch.regularizers is not None:
        # Indexing would copy the number to the device.
        curvature.index_fill_(0, batch.regularizers, 1 / batch.sigma**2)
    return curvature[: space.n]


def _steps_asked(space: SearchSpace, walk: SampleTrace) -> Tensor:
    """Which decisions on one more operation were made, (B, max_count): all until the
    image had K operations.
    """
    return torch.arange(space.max_count, device=walk.count.device) <= walk.count
