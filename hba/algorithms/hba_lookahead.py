"""HBA and look-ahead in one training: lambda moves along the hypergradient and by the rewards of augmented images.

Two algorithms use both. `hba-lookahead` adds them up: the hypernetwork shows the effect of many past steps, as far as
it has learned the response; look-ahead shows the effect of the next ones.

`joint` takes look-ahead for what acts on images and the hypergradient for everything else. The effect of an operation,
or of a regularizer of images, can be judged by one step on the augmented image. The effect of what acts inside the
network or in the loss (dropout, weight decay) appears only after many steps; one step would always ask for less of it.
So the weights respond to changes of these hyperparameters only.

Symbols as in hypergradient.py and lookahead.py. w of look-ahead are the current weights: phi without the response.
Rewards are taken at the same lambda for all images. At the lambda that each image was augmented with, they would depend
on epsilon through the response too, and not only through the image.
"""

import functools
from typing import ClassVar

import torch
from torch import Tensor

from hba.algorithms.hypergradient import Hypergradient, HyperGradientState, Response, update_phi
from hba.algorithms.lookahead import Rewards, StrengthFirst
from hba.algorithms.rewards import gradients_of, rewards_of
from hba.algorithms.scores import AugmentedBatch, expected_score
from hba.algorithms.task import Task
from hba.config.training import SGD, SGD_CLASSICAL, SGDS, CommonSearchConfig, Sharing
from hba.data.config import Size
from hba.data.images import Batch
from hba.errors import SettingsError
from hba.training.optim import MOMENTUM, preconditioned

HORIZON_STEPS = 10
"""Steps of SGD that the rewards of one step stand for, when both gradients are added up in nats."""
LEAST_LEARNING_RATE = 0.1
"""Least learning rate of the steps that rewards stand for, as a share of the first: late steps are too short."""


@functools.cache
def reach(steps: int, optimizer: str = SGD) -> float:
    """How far steps of SGD go along a constant gradient, in units of the learning rate."""
    velocity = distance = 0.0
    for _ in range(steps):
        velocity = MOMENTUM * velocity + 1
        distance += velocity if optimizer == SGD_CLASSICAL else 1 + MOMENTUM * velocity
    return distance


class BothGradients(Rewards, Hypergradient):
    """A hypergradient and the rewards of steps, taken from the same validation images."""

    def check(self, config: CommonSearchConfig) -> None:
        super().check(config)
        if self.sigma_entropy is not None:
            raise SettingsError(f"sigma_entropy has no effect on the algorithm {self.name}; omit it")

    def lambda_step(self, task: Task, state: HyperGradientState, batch: Batch) -> None:
        """One step on lambda, which judges draws for the images of the last batch by other validation images each."""
        self.update_lambda_by(task, state, self.augmented(task, state, *batch, self.reward_draws))

    def update_lambda_by(self, task: Task, state: HyperGradientState, batch: AugmentedBatch) -> None:
        """One step on lambda by both gradients: of what was learned, and of steps to come."""
        network, lam = state.learner.hypernetwork, state.lam
        loss = self.validation_loss(task, state, network, lambda images: network(images, lam))
        weights = {name: one for name, one in network.current_parameters().items() if one.requires_grad}
        through_response, *gradient = gradients_of(loss, [lam, *weights.values()])
        direction = preconditioned(state.learner.optimizer, weights.values(), gradient)
        along = dict(zip(weights, direction, strict=True))
        found = rewards_of(network, batch, along, lam.detach(), derivative=self.reward_derivative)
        rewards, scale = self.standardized(batch, found)
        by_rewards = -expected_score(task.space, batch, rewards)
        gradient_of_both, unit = self.combined(task, state, through_response, by_rewards, scale)
        self.move_by(task, state, batch, gradient_of_both, unit)
        self.move_center(state)
        state.totals.add_lambda(loss.detach())

    def combined(
        self, task: Task, state: HyperGradientState, through_response: Tensor, by_rewards: Tensor, scale: Tensor
    ) -> tuple[Tensor, float | Tensor]:
        """The gradient (n,) that lambda moves along, and what one standard deviation of rewards is in its unit.

        through_response (n,): the hypergradient in nats. by_rewards (n,): in standard deviations of rewards, one of
        which is scale () in nats along one unit of the learning rate.
        """
        raise NotImplementedError


class HbaLookahead(BothGradients):
    """Adds up both gradients. Begins in the middle of every range."""

    name: ClassVar[str] = "hba-lookahead"

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
        rate = max(state.learner.learning_rate, LEAST_LEARNING_RATE * task.config.learning_rate)
        nats = reach(HORIZON_STEPS, task.config.optimizer) * rate * scale
        return through_response + nats * by_rewards, nats


class Joint(StrengthFirst, BothGradients):
    """Moves operations as look-ahead does by default; all layers respond to everything else."""

    name: ClassVar[str] = "joint"

    train_steps: Size = 2
    sharing: Sharing = "all"
    response: Response = "separate"

    def lambda_step(self, task: Task, state: HyperGradientState, batch: Batch) -> None:
        """One step by both gradients, or by the hypergradient alone if nothing acts on images."""
        if task.space.operations or task.image_columns is not None:
            super().lambda_step(task, state, batch)
        else:
            self.update_lambda(task, state)

    def learn(self, task: Task, state: HyperGradientState, batch: Batch, lam_rows: Tensor) -> None:
        """Every image is augmented at its own lambda. The weights get that lambda only for hyperparameters that take
        effect through them.
        """
        of_weights = torch.where(task.through_weights, lam_rows, state.lam.detach())

        def augment(images: Tensor, _: Tensor) -> Tensor:
            return task.augment(images, lam_rows, state.generator)

        update_phi(task, state, batch, of_weights, self.response, augment)

    def combined(
        self, task: Task, state: HyperGradientState, through_response: Tensor, by_rewards: Tensor, scale: Tensor
    ) -> tuple[Tensor, float | Tensor]:
        """Each hyperparameter by its own gradient. Adam normalizes each one's, so units need not agree."""
        return torch.where(task.through_weights, through_response, by_rewards), 1.0
