"""HBA and look-ahead in one training: lambda moves along the hypergradient and by the
rewards of augmented images.

`joint` uses look-ahead for everything that acts on images and the hypergradient for
everything else. One step on an augmented image shows the effect of an operation or of a
regularizer on images. Dropout, weight decay and others that act inside the network or
in the loss take effect only after many steps; judged by one step, less would always be
better. So the weights respond to changes of these hyperparameters only.

Symbols as in hypergradient.py and lookahead.py. w of look-ahead are the current
weights: phi without the response. Rewards use the same lambda for all images. With each
image's own lambda, they would also depend on epsilon through the response, and not only
through the image.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor

from hba.algorithms.hypergradient import (
    Hypergradient,
    HyperGradientState,
    Response,
    update_phi,
)
from hba.algorithms.lambda_steps import LambdaGradient
from hba.algorithms.lookahead import Rewards
from hba.algorithms.problem import Inputs, SearchProblem
from hba.algorithms.rewards import gradients_of, rewards_of
from hba.algorithms.scores import AugmentedBatch, expected_score
from hba.config.training import CommonSearchConfig, Sharing
from hba.data.config import Size
from hba.errors import SettingsError
from hba.training.optim import preconditioned


class Joint(Rewards[HyperGradientState], Hypergradient):
    """Look-ahead for what acts on images, HBA for everything else. By default, all
    layers depend on lambda.
    """

    name: ClassVar[str] = "joint"

    train_steps: Size = 2
    sharing: Sharing = "all"
    response: Response = "separate"

    def check(self, config: CommonSearchConfig) -> None:
        super().check(config)
        if self.sigma_entropy is not None:
            raise SettingsError(
                f"sigma_entropy has no effect on the algorithm {self.name}; omit it"
            )

    def gradient(
        self, problem: SearchProblem, state: HyperGradientState, *batches: Any
    ) -> LambdaGradient:
        """The gradient of lambda.

        If anything acts on images, it judges new draws for the images of the last
        batch.
        """
        if not problem.space.operations and problem.image_columns is None:
            return super().gradient(problem, state, *batches)
        images, labels, *validated = batches
        return self.gradient_by(
            problem,
            state,
            self.augmented(problem, state, images, labels, self.reward_draws),
            *validated,
        )

    def gradient_by(
        self,
        problem: SearchProblem,
        state: HyperGradientState,
        batch: AugmentedBatch,
        *validated: Any,
    ) -> LambdaGradient:
        """The gradient of lambda, the hypergradient or by rewards.

        Both come from the same validation images. The hypergradient is in nats, the
        other in standard deviations of rewards. Adam normalizes the gradient of each
        hyperparameter, so the units may differ.

        Args:
            problem: The problem of the search.
            state: The state of the search.
            batch: The augmented images, whose draws are judged.
            validated: Inputs and labels of a validation batch.
        """
        network = state.learner.hypernetwork
        lam = state.lam
        loss = self.validation_loss(
            problem, network, lambda images: network(images, lam), *validated
        )
        weights = {
            name: parameter
            for name, parameter in network.current_parameters().items()
            if parameter.requires_grad
        }
        through_response, *gradient = gradients_of(loss, [lam, *weights.values()])
        direction = preconditioned(state.learner.optimizer, weights.values(), gradient)
        along = dict(zip(weights, direction, strict=True))
        rewards = rewards_of(
            network, batch, along, lam.detach(), derivative=self.reward_derivative
        )
        by_rewards = -expected_score(
            problem.space, batch, self.standardized(batch, rewards)
        )
        return self.pulled(
            problem,
            batch,
            loss,
            torch.where(problem.through_weights, through_response, by_rewards),
        )

    def learn(
        self,
        problem: SearchProblem,
        state: HyperGradientState,
        batch: tuple[Inputs, Tensor],
        lam_rows: Tensor,
    ) -> None:
        """Augment each image at its own lambda. The weights get that lambda only where
        it acts through them.
        """
        of_weights = torch.where(problem.through_weights, lam_rows, state.lam.detach())

        def augment(images: Tensor, _: Tensor) -> Tensor:
            return problem.augment(images, lam_rows, state.generator)

        update_phi(problem, state, batch, of_weights, self.response, augment)
