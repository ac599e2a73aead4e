"""The scale of the noise on lambda, learnt with lambda: STN's eq. 15 (MacKay et al. 2019).

symbol      in the code         meaning
sigma       scale.sigma         standard deviation of the noise on each hyperparameter (n,), in logits
tau         sigma_entropy       weight of the entropy of the noise; STN says in [0, 1]
H           scale.entropy()     sum_j log sigma_j, the entropy of the noise but for a constant

A lambda step lowers E F(lambda + sigma epsilon) - tau H. Of an F whose curvature along lambda_j is h_j, sigma_j comes
to rest at sqrt(tau / h_j): noise is wide where the validation loss hardly answers, and goes to zero without the
entropy.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus
from torch.optim import Optimizer

from hba.algorithms.lambda_steps import LambdaMover

SMALL = -20.0
"""Below it, softplus is the exponential in single precision; its logarithm would be lost where that underflows."""


@dataclass
class LearntScale:
    """spread (n,): sigma = softplus(spread). It is the leaf of the optimizer."""

    spread: Tensor
    optimizer: Optimizer

    @property
    def sigma(self) -> Tensor:
        """(n,), with its graph."""
        return softplus(self.spread)

    def entropy(self) -> Tensor:
        """sum_j log sigma_j (), with its graph."""
        return torch.where(self.spread < SMALL, self.spread, softplus(self.spread.clamp(min=SMALL)).log()).sum()

    def move(self, gradient: Tensor) -> None:
        """One step along the gradient (n,) of spread."""
        self.spread.grad = gradient
        self.optimizer.step()


@dataclass
class ScaledMover(LambdaMover):
    """A mover of lambda whose noise is learnt."""

    scale: LearntScale


def spread_of(sigma: float) -> float:
    """The number that softplus takes to sigma, which is above 0."""
    return sigma + math.log(-math.expm1(-sigma))
