"""Look-ahead for what acts on images and the hypergradient for everything else, in one training.

The effect of an operation, or of a regularizer of images, can be judged by one step on the augmented image. The effect
of what acts inside the network or in the loss (dropout, weight decay) appears only after many steps; one step would
always ask for less of it. So the weights respond to changes of these hyperparameters only, and the validation loss is
differentiated through this response; the others move by rewards. Symbols as in hypergradient.py and lookahead.py.
"""

from typing import ClassVar

import torch
from torch import Tensor

from hba.algorithms.algorithm import Count, Init, SpreadOver
from hba.algorithms.hba_lookahead import BothGradients
from hba.algorithms.hypergradient import Hypergradient, HyperGradientState, Response, update_phi
from hba.algorithms.lambda_steps import Betas
from hba.algorithms.lookahead import Lookahead
from hba.algorithms.rewards import RewardDerivative
from hba.algorithms.task import Task
from hba.config.training import NotNegative, Share, Sharing
from hba.data.config import Size
from hba.data.images import Batch

_OF_LOOKAHEAD = Lookahead.model_fields


class Joint(BothGradients):
    """Moves operations as look-ahead does by default; all layers respond to everything else."""

    name: ClassVar[str] = "joint"

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
        """One step by both gradients, or by the hypergradient alone if nothing acts on images."""
        if task.space.operations or task.image_columns is not None:
            super().step(task, state)
        else:
            Hypergradient.step(self, task, state)

    def learn(self, task: Task, state: HyperGradientState, batch: Batch, lam_rows: Tensor) -> None:
        """Every image is augmented at its own lambda. The weights get that lambda only for hyperparameters that take
        effect through them.
        """
        of_weights = torch.where(task.through_weights, lam_rows, state.lam.detach())

        def augment(images: Tensor, _: Tensor) -> Tensor:
            return task.augment(images, lam_rows, state.generator)

        update_phi(task, state, batch, of_weights, self.response, augment)
