"""Look-ahead for what acts on images, the hypergradient for all else: one training that tunes both.

An operation, or a regularizer of images, shows at once what it is worth: a step on the image that it made helps, or it
does not. What acts inside the network or in the loss (dropout, weight decay) shows only in what many steps make of the
weights; one step would always want less of it. So the weights answer a change of those hyperparameters alone, and the
validation loss reaches them through this response; the others go by rewards. Symbols as in hypergradient.py and
lookahead.py.
"""

from typing import ClassVar

import torch
from torch import Tensor

from hba.algorithms.algorithm import Count, Init, SpreadOver
from hba.algorithms.derivatives import RewardDerivative
from hba.algorithms.hba_lookahead import BothGradients
from hba.algorithms.hypergradient import Hypergradient, HyperGradientState, Response, update_phi
from hba.algorithms.lambda_steps import Betas
from hba.algorithms.lookahead import Lookahead
from hba.algorithms.scores import AugmentedBatch, expected_score
from hba.algorithms.task import Task
from hba.config.training import NotNegative, Share, Sharing
from hba.data.config import Size
from hba.data.images import Batch

_OF_LOOKAHEAD = Lookahead.model_fields


class Joint(BothGradients):
    """Operations as look-ahead moves them by default, and a response of all layers to everything else."""

    name: ClassVar[str] = "joint"
    multi_label: ClassVar[bool] = True

    train_steps: Size = 2
    init: Init = _OF_LOOKAHEAD["init"].default
    count: Count = _OF_LOOKAHEAD["count"].default
    spread_over: SpreadOver = _OF_LOOKAHEAD["spread_over"].default
    spread_share: Share = _OF_LOOKAHEAD["spread_share"].default
    lambda_betas: Betas = _OF_LOOKAHEAD["lambda_betas"].default
    strength_learning_rate: NotNegative = _OF_LOOKAHEAD["strength_learning_rate"].default
    divergence_weight: NotNegative = _OF_LOOKAHEAD["divergence_weight"].default
    reward_derivative: RewardDerivative = _OF_LOOKAHEAD["reward_derivative"].default
    sharing: Sharing = "all"
    response: Response = "separate"

    def step(self, task: Task, state: HyperGradientState) -> None:
        """As of both gradients; where nothing acts on images, by the hypergradient alone."""
        if task.acts_on_images:
            super().step(task, state)
        else:
            Hypergradient.step(self, task, state)

    def train_step(self, task: Task, state: HyperGradientState) -> Batch:
        """One update of phi on the next batch, whose images are augmented at a lambda of their own each.

        The weights are told of that lambda only as far as they answer it.
        """
        images, labels = state.train_stream.next()
        noise = task.noise(len(images), state.generator)
        lam_rows = state.lam.detach() + self.sigma_now(task, state) * noise
        of_weights = torch.where(task.through_weights, lam_rows, state.lam.detach())

        def augment(images: Tensor, _: Tensor) -> Tensor:
            return task.augment(images, lam_rows, state.generator)

        update_phi(task, state, images, labels, of_weights, self.response, augment)
        state.step += 1
        return images, labels

    def move_by(
        self,
        task: Task,
        state: HyperGradientState,
        batch: AugmentedBatch,
        through_response: Tensor,
        rewards: Tensor,
        scale: Tensor,
    ) -> None:
        """Each hyperparameter by its own gradient. It is divided by its own size, so units need not be the same."""
        score = expected_score(task.space, batch, rewards)
        gradient = torch.where(task.through_weights, through_response, -score)
        curvature, of_spread = self.of_divergence(task, state, batch), self.of_spread(task, state, batch, rewards)
        self.move_lambda(task, state, gradient, of_spread, curvature)
