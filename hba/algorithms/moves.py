"""What the moves of lambda since the last probe promised, and what a short training of a probe is."""

import functools
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hba.algorithms.problem import Problem
from hba.algorithms.state import SearchState
from hba.training.optimizer import MOMENTUM

PROBE_STEPS = 10
"""Training steps of each of the two short trainings of a probe."""
LEAST_LEARNING_RATE = 0.1
"""Of a probe, as a share of the search's first: late in a search, steps are too small to show anything."""


@dataclass
class Moves:
    """Added up over the lambda steps since the last probe, on the device.

    start (n,): lambda then. gradients, squares (n,): sums of the hypergradients, and of their squares; a hypergradient
    is of the validation loss in nats. count (): lambda steps.
    """

    start: Tensor
    gradients: Tensor
    squares: Tensor
    count: Tensor

    @staticmethod
    def since(lam: Tensor) -> "Moves":
        start = lam.detach().clone()
        return Moves(start, torch.zeros_like(start), torch.zeros_like(start), start.new_zeros(()))

    def add(self, gradient: Tensor) -> None:
        self.gradients += gradient
        self.squares += gradient.square()
        self.count += 1

    def predicted_change(self, lam: Tensor) -> Tensor:
        """Of the validation loss, to first order: the mean hypergradient times the whole move of lambda.

        Both come from the same hypergradients, noise and all, so that it promises too much.
        """
        return (self.gradients / self.count) @ (lam.detach() - self.start)

    def signal_to_noise(self) -> Tensor:
        """Of one hypergradient: |its mean|^2 over the sum of its variances, both without bias; may be below zero."""
        mean = self.gradients / self.count
        variance = ((self.squares / self.count - mean.square()) * self.count / (self.count - 1)).sum()
        return (mean.square().sum() - variance / self.count) / variance

    def state_dict(self) -> dict[str, Tensor]:
        return dict(vars(self))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            getattr(self, name).copy_(value)


def probe_learning_rate(problem: Problem, state: SearchState) -> float:
    """Of a probe: that of the search's next step, but not too little."""
    return max(state.learning_rate, LEAST_LEARNING_RATE * problem.config.learning_rate)


@functools.cache
def probe_reach() -> float:
    """How far the steps of a probe go along a gradient that stays the same, in units of its learning rate."""
    velocity = reach = 0.0
    for _ in range(PROBE_STEPS):
        velocity = MOMENTUM * velocity + 1
        reach += 1 + MOMENTUM * velocity
    return reach
