"""Look-ahead: rewards augmented images by how much a step on them lowers the validation
loss, without a hypernetwork.

symbol   in the code      meaning
w        learner.network  weights of an ordinary network
lambda   state.lam        hyperparameters as logits, shape (n,)
epsilon  noise            one row for each draw of a batch, standard normal,
                          shape (B, n)
v        direction        gradient of the validation loss with respect to w
r_i      rewards          derivative of the training loss of image i along v,
                          shape (B,)

A step of SGD on image i moves w by -alpha times the gradient of its loss l_i, so to
first order it changes the validation loss by -alpha r_i. r rewards the policy for its
draw on this image: the score function of the draw (Williams 1992) times r, averaged
over the batch, is the gradient of the expected reward with respect to lambda. The
operations are never differentiated. Differentiable Data Selection (Wang et al. 2020)
weights training images by this r.

With AdamW, v is the gradient divided, element by element, by the denominator of AdamW's
next step: the root of its mean squared gradients after the last step. To first order,
and with this root held fixed, a step of AdamW on image i changes the validation loss by
r_i times a negative number that is the same for all images (docs/method.md, AdamW).

Rewards differ far more between images than between draws for one image. So the policy
draws several times for each image, and the mean of an image's other draws is subtracted
from each reward: the leave-one-out baseline of REINFORCE (Kool, van Hoof and Welling
2019), which changes no expectation.
"""

from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from hba.algorithms.algorithm import Count, Init, SpreadOver
from hba.algorithms.lambda_steps import (
    HALF,
    Betas,
    GradientState,
    GradientStateT,
    LambdaGradient,
    LambdaSteps,
    ValBatchSize,
)
from hba.algorithms.problem import SearchProblem
from hba.algorithms.rewards import (
    RewardDerivative,
    advantages_of,
    gradients_of,
    rewards_of,
)
from hba.algorithms.scores import AugmentedBatch, divergence_curvature, expected_score
from hba.algorithms.state import NetworkModel, Networks
from hba.algorithms.update_schedule import TRIED_STEPS
from hba.config.training import CommonSearchConfig, NotNegative, Share
from hba.data.config import Size
from hba.errors import SettingsError
from hba.tasks import IMAGE_TASKS
from hba.training.optim import preconditioned

LookaheadState = GradientState[NetworkModel]


class Rewards(LambdaSteps[GradientStateT]):
    """Base class of algorithms that reward draws of the policy by the effect of a step
    on the augmented images.

    By default, they start at RandAugment's policy and change the strength of the policy
    first.
    """

    tried_steps: ClassVar[int] = TRIED_STEPS
    init: Init = "randaugment"
    count: Count = "searched"
    spread_over: SpreadOver = "magnitudes"
    spread_share: Share = 0.5
    lambda_betas: Betas = (0.98, 0.999)
    strength_learning_rate: NotNegative = 0.1
    reward_draws: Size = 4
    """Augmented copies of each image to compare. 1: compare images with each other."""
    reward_derivative: RewardDerivative = "auto"
    """How to compute rewards. exact: in forward mode, which some layers do not support.
    difference: from the losses with the weights moved a little in both directions, in
    half the time on a CPU. auto: difference on a CPU if no weights are frozen,
    otherwise exact.
    """
    divergence_weight: NotNegative = 0.03
    """Strength of the pull to the initial policy. At 0.03, a decision worth 0.03
    standard deviations of reward moves its probability by one logit. 0: no pull.
    """

    def check(self, config: CommonSearchConfig) -> None:
        super().check(config)
        if self.sigma == 0:
            raise SettingsError(
                f"sigma must be above 0: {self.name} learns magnitudes from the noise"
                " on them"
            )

    def augmented(
        self,
        problem: SearchProblem,
        state: GradientStateT,
        images: Tensor,
        labels: Tensor,
        draws: int = 1,
    ) -> AugmentedBatch:
        """Images, `draws` times, each augmented at its own lambda + sigma epsilon."""
        images = images.repeat(draws, 1, 1, 1)
        labels = torch.cat([labels] * draws)
        noise = problem.noise(len(images), state.generator)
        values = problem.space.decode(state.lam.detach() + self.sigma * noise)
        inputs, labels, walk = problem.augment_with(
            values, images, labels, state.generator
        )
        return AugmentedBatch(
            inputs,
            labels,
            walk,
            values,
            noise,
            self.sigma,
            draws,
            problem.image_columns,
        )

    def standardized(self, batch: AugmentedBatch, rewards: Tensor) -> Tensor:
        """Advantages (B,) of rewards (B,), divided by their standard deviation."""
        advantages = advantages_of(rewards, batch.draws)
        return advantages / advantages.std().clamp(min=torch.finfo(rewards.dtype).tiny)

    def pulled(
        self,
        problem: SearchProblem,
        batch: AugmentedBatch,
        loss: Tensor,
        gradient: Tensor,
    ) -> LambdaGradient:
        """A gradient of lambda with the pull to the start of the search.

        Args:
            problem: The problem of the search.
            batch: The augmented images.
            loss: Loss of the validation images.
            gradient: The gradient of lambda (n,).
        """
        weight = self.divergence_weight
        curvature = (
            weight * divergence_curvature(problem.space, batch) if weight else None
        )
        return LambdaGradient(loss.detach(), gradient, curvature)


class Lookahead(Rewards[LookaheadState]):
    """Look-ahead, the default if the search space has only operations of the walk."""

    name: ClassVar[str] = "lookahead"
    tasks: ClassVar[tuple[str, ...]] = tuple(IMAGE_TASKS)
    can_be_fast: ClassVar[bool] = True

    train_steps: Size = 5
    val_batch_size: ValBatchSize = HALF

    def begin(self, problem: SearchProblem, networks: Networks) -> LookaheadState:
        lam = self.start(problem)
        return LookaheadState.of(
            problem,
            lam,
            NetworkModel.of(problem, networks(0)),
            mover=self.mover(problem, lam),
        )

    def step(self, problem: SearchProblem, state: LookaheadState) -> None:
        """One training step; after each T_train of them, T_val lambda steps. Each
        judges draws for the images of the last batch on a new validation batch.
        """
        batch = state.train_stream.next()
        trained_on = state.graphs.run(
            "train", partial(self.train_step, problem, state), *batch
        )
        state.learner.schedule.step()
        state.step += 1
        if self.is_lambda_time(state):
            for number in range(self.val_steps):
                is_new = self.reward_draws > 1 or number > 0
                self.update_lambda(
                    problem, state, batch, *(() if is_new else (trained_on,))
                )

    def train_step(
        self,
        problem: SearchProblem,
        state: LookaheadState,
        images: Tensor,
        labels: Tensor,
    ) -> AugmentedBatch:
        """Make one step on the weights; return the augmented batch."""
        trained_on = self.augmented(problem, state, images, labels)
        state.totals.add_training(
            *state.learner.learn(trained_on.images, trained_on.labels)
        )
        return trained_on

    def gradient(
        self, problem: SearchProblem, state: LookaheadState, *tensors: Any
    ) -> LambdaGradient:
        """The gradient of lambda by standardized rewards.

        Args:
            problem: The problem of the search.
            state: The state of the search.
            tensors: The augmented batch to judge, if it is not a batch of new draws;
                then the inputs and labels of `batches`.
        """
        *judged, images, labels, val_images, val_labels = tensors
        batch = (
            judged[0]
            if judged
            else self.augmented(problem, state, images, labels, self.reward_draws)
        )
        learner = state.learner
        loss = self.validation_loss(
            problem, learner.network, learner.forward, val_images, val_labels
        )
        rewards = self.standardized(batch, self.rewards(learner, batch, loss))
        return self.pulled(
            problem, batch, loss, -expected_score(problem.space, batch, rewards)
        )

    def rewards(
        self, learner: NetworkModel, batch: AugmentedBatch, loss: Tensor
    ) -> Tensor:
        """Rewards (B,), in eval mode.

        Args:
            learner: The weights and their optimizer.
            batch: The augmented images.
            loss: Loss of validation images, with a graph.
        """
        weights = {
            name: parameter
            for name, parameter in learner.network.named_parameters()
            if parameter.requires_grad
        }
        direction = preconditioned(
            learner.optimizer, weights.values(), gradients_of(loss, weights.values())
        )
        along = dict(zip(weights, direction, strict=True))
        return rewards_of(
            learner.network, batch, along, derivative=self.reward_derivative
        )
