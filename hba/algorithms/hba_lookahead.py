"""HBA and look-ahead together: lambda moves along the hypergradient and by the rewards of a step on augmented images.

The hypernetwork shows the effect of many past steps, as far as it has learned the response; look-ahead shows the effect
of the next ones. Symbols as in hypergradient.py and lookahead.py. w of look-ahead are the current weights: phi without
the response. Rewards are taken at the same lambda for all images. At the lambda that each image was augmented with,
they would depend on epsilon through the response too, and not only through the image.
"""

import functools
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from hba.algorithms.hypergradient import Hypergradient, HyperGradientState
from hba.algorithms.lookahead import Rewards
from hba.algorithms.rewards import gradients_of, rewards_of, trained_parameters
from hba.algorithms.scores import AugmentedBatch, expected_score
from hba.algorithms.state import InnerModel
from hba.algorithms.task import Task
from hba.config.training import SGD, SGD_CLASSICAL, SGDS, CommonSearchConfig
from hba.data.config import Size
from hba.errors import SettingsError
from hba.hypernet import HyperNetwork
from hba.training.optim import MOMENTUM, preconditioned

HORIZON_STEPS = 10
"""Steps of SGD that the rewards of one step stand for, when both gradients are added up in nats."""
LEAST_LEARNING_RATE = 0.1
"""Least learning rate of the steps that rewards stand for, as a share of the first: late steps are too short."""


def horizon_learning_rate(task: Task, learner: InnerModel) -> float:
    """That of the next step, but at least LEAST_LEARNING_RATE."""
    return max(learner.learning_rate, LEAST_LEARNING_RATE * task.config.learning_rate)


@functools.cache
def reach(steps: int, optimizer: str = SGD) -> float:
    """How far steps of SGD go along a constant gradient, in units of the learning rate."""
    velocity = distance = 0.0
    for _ in range(steps):
        velocity = MOMENTUM * velocity + 1
        distance += velocity if optimizer == SGD_CLASSICAL else 1 + MOMENTUM * velocity
    return distance


class BothGradients(Rewards, Hypergradient):
    """A hypergradient and the rewards of steps, taken from the same validation images. Hyperparameters that take effect
    through the weights move along the former, all others by the latter.
    """

    train_steps: Size = 4

    def check(self, config: CommonSearchConfig) -> None:
        super().check(config)
        if self.sigma_entropy is not None:
            raise SettingsError(
                f"sigma_entropy has no effect on the algorithm {self.name}, which learns the noise by search_spread; "
                "omit it"
            )

    def step(self, task: Task, state: HyperGradientState) -> None:
        """One training step as HBA's; after each T_train of them, T_val lambda steps, which judge draws for the images
        of the last batch by other validation images each.
        """
        images, labels = self.train_step(task, state)
        if self.is_lambda_time(state):
            for _ in range(self.val_steps):
                batch = self.augmented(task, state, images, labels, self.reward_draws)
                self.update_lambda_by(task, state, batch)

    def update_lambda_by(self, task: Task, state: HyperGradientState, batch: AugmentedBatch) -> None:
        """One step on lambda by both gradients: of what was learned, and of steps to come."""
        network, lam = state.learner.hypernetwork, state.lam
        loss = self.validation_loss(task, state, network, lambda images: network(images, lam))
        weights = current_weights(network)
        through_response, *gradient = gradients_of(loss, [lam, *weights.values()])
        direction = preconditioned(state.learner.optimizer, weights.values(), gradient)
        along = dict(zip(weights, direction, strict=True))
        found = rewards_of(network, batch, along, lam.detach(), derivative=self.reward_derivative)
        rewards, scale = self.standardized(batch, found)
        by_rewards = -expected_score(task.space, batch, rewards)
        self.move_by(task, state, batch, rewards, *self.combined(task, state, through_response, by_rewards, scale))
        self.move_center(state)
        state.totals.add_lambda(loss.detach())

    def combined(
        self, task: Task, state: HyperGradientState, through_response: Tensor, by_rewards: Tensor, scale: Tensor
    ) -> tuple[Tensor, float | Tensor]:
        """The gradient (n,) that lambda moves along, and what one standard deviation of rewards is in its unit.

        through_response (n,): the hypergradient in nats. by_rewards (n,): in standard deviations of rewards, one of
        which is scale (). Adam normalizes each hyperparameter's gradient, so units need not agree.
        """
        return torch.where(task.through_weights, through_response, by_rewards), 1.0


class HbaLookahead(BothGradients):
    """Adds up both gradients. Begins in the middle of every range."""

    name: ClassVar[str] = "hba-lookahead"

    initial_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.5

    def check(self, config: CommonSearchConfig) -> None:
        super().check(config)
        if config.optimizer not in SGDS:
            raise SettingsError(
                f"the algorithm {self.name} adds up gradients by how far steps of SGD go; set optimizer to {SGD}, or "
                "choose the algorithm lookahead or hba"
            )

    def combined(
        self, task: Task, state: HyperGradientState, through_response: Tensor, by_rewards: Tensor, scale: Tensor
    ) -> tuple[Tensor, float | Tensor]:
        """The sum of both gradients in nats."""
        nats = reach(HORIZON_STEPS, task.config.optimizer) * horizon_learning_rate(task, state.learner) * scale
        return through_response + nats * by_rewards, nats


def current_weights(hypernetwork: HyperNetwork) -> dict[str, nn.Parameter]:
    """By name, all of phi that is trained but the response."""
    response = {id(parameter) for parameter in hypernetwork.response_parameters()}
    return {name: one for name, one in trained_parameters(hypernetwork).items() if id(one) not in response}
