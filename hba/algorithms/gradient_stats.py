"""What the moves of lambda since the last probe promised, and how far a short training goes."""

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from hba.algorithms.state import InnerModel
from hba.algorithms.task import Task
from hba.config.training import SGD, SGD_CLASSICAL
from hba.training.optim import MOMENTUM

PROBE_STEPS = 10
"""Training steps of each of the two short trainings of a probe."""
LEAST_LEARNING_RATE = 0.1
"""Of a short training, as a share of the search's first: late in a search, steps are too small to show anything."""


@dataclass
class GradientStats:
    """Added up over the lambda steps since the last probe, on the device.

    start (n,): lambda then. gradients, squares (n,): sums of the hypergradients, and of their squares; a hypergradient
    is of the validation loss in nats. count (): lambda steps.
    """

    start: Tensor
    gradients: Tensor
    squares: Tensor
    count: Tensor

    @staticmethod
    def since(lam: Tensor) -> "GradientStats":
        start = lam.detach().clone()
        return GradientStats(start, torch.zeros_like(start), torch.zeros_like(start), start.new_zeros(()))

    def add(self, gradient: Tensor) -> None:
        self.gradients += gradient
        self.squares += gradient.square()
        self.count += 1

    def predicted_change(self, lam: Tensor) -> Tensor:
        """Of the validation loss, to first order: the mean hypergradient times the whole move of lambda.

        Both come from the same hypergradients, noise and all, so it promises too much.
        """
        return (self.gradients / self.count) @ (lam.detach() - self.start)

    def signal_to_noise(self) -> Tensor:
        """Of one hypergradient: |its mean|^2 over the sum of its variances, both without bias; may be below zero."""
        mean = self.gradients / self.count
        variance = ((self.squares / self.count - mean.square()) * self.count / (self.count - 1)).sum()
        return (mean.square().sum() - variance / self.count) / variance


def short_training_rate(task: Task, learner: InnerModel) -> float:
    """Learning rate of a short training: that of the search's next step, but not too little."""
    return max(learner.learning_rate, LEAST_LEARNING_RATE * task.config.learning_rate)


@functools.cache
def reach(steps: int, optimizer: str = SGD) -> float:
    """How far steps of SGD go along a gradient that stays the same, in units of the learning rate."""
    velocity = distance = 0.0
    for _ in range(steps):
        velocity = MOMENTUM * velocity + 1
        distance += velocity if optimizer == SGD_CLASSICAL else 1 + MOMENTUM * velocity
    return distance
