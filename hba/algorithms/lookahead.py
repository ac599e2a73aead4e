"""Look-ahead: rewards augmented images by how much a step on them lowers the validation loss; no hypernetwork.

symbol      in the code                     meaning
w           learner.network                 weights of an ordinary network
lambda      state.lam                       hyperparameters as logits, shape (n,)
epsilon     noise                           one row for each draw of a batch, standard normal, shape (B, n)
v           direction                       gradient of the validation loss with respect to w
r_i         rewards                         derivative of the training loss of image i along v, shape (B,)

A step of SGD on image i moves w by -alpha times the gradient of its loss l_i, and so changes the validation loss by
-alpha r_i to first order. r is a reward for what the policy drew for this image: the score function of the draw
(Williams 1992) times r, averaged over the batch, is the gradient of the expected reward with respect to lambda. The
operations are never differentiated. In Differentiable Data Selection (Wang et al. 2020), this r weighs training images.

With AdamW, v is the gradient divided, element by element, by what AdamW divides its next step by: the root of its mean
squared gradients after the last step. So to first order, and with the root held fixed, a step of AdamW on image i
changes the validation loss by r_i times a negative number that is the same for all images (docs/method.md, AdamW).

Rewards differ far more between images than between the draws for one image. So each image is drawn for several times,
and a reward counts by how far it is from the mean of the image's other draws: the leave-one-out baseline of REINFORCE
(Kool, van Hoof and Welling 2019), which changes no expectation.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor

from hba.algorithms.algorithm import Count, Init, SpreadOver
from hba.algorithms.lambda_steps import HALF, Betas, GradientState, LambdaSteps, ValBatchSize
from hba.algorithms.rewards import RewardDerivative, advantages_of, gradients_of, rewards_of, trained_parameters
from hba.algorithms.scores import AugmentedBatch, divergence_curvature, expected_score
from hba.algorithms.state import L, NetworkModel, Networks
from hba.algorithms.task import Task
from hba.config.training import CommonSearchConfig, NotNegative, Share
from hba.data.config import Size
from hba.distributed.collectives import all_gather, local_shard, n_repeats
from hba.errors import SettingsError
from hba.training.optim import preconditioned

LookaheadState = GradientState[NetworkModel]


class Rewards(LambdaSteps):
    """Base class of algorithms that reward samples of the policy by the effect of a step on the augmented images.

    Its defaults start at RandAugment's policy and move the strength of a policy first.
    """

    init: Init = "randaugment"
    count: Count = "searched"
    spread_over: SpreadOver = "magnitudes"
    spread_share: Share = 0.5
    lambda_betas: Betas = (0.98, 0.999)
    strength_learning_rate: NotNegative = 0.1
    reward_draws: Size = 4
    """Augmented copies of each image that are compared. 1: images are compared with each other."""
    reward_derivative: RewardDerivative = "auto"
    """How rewards are taken: exact, by forward mode, which some layers have not; difference, by the losses with the
    weights a little to either side, in half the time on a CPU; or auto, the difference on a CPU where no weights are
    frozen, and exact elsewhere."""
    divergence_weight: NotNegative = 0.03
    """Strength of the pull to the initial policy. At 0.03, a decision worth 0.03 standard deviations of reward moves
    its probability by one logit. 0: no pull."""

    def check(self, config: CommonSearchConfig) -> None:
        super().check(config)
        if self.sigma == 0:
            raise SettingsError(f"{self.name} learns magnitudes from the noise on them: sigma must be above 0")

    def augmented(
        self, task: Task, state: GradientState[L], images: Tensor, labels: Tensor, draws: int = 1
    ) -> AugmentedBatch:
        """The images, repeated `draws` times, each augmented at its own lambda + sigma epsilon."""
        images, labels = images.repeat(draws, 1, 1, 1), torch.cat([labels] * draws)
        with n_repeats(draws):
            noise = task.noise(len(images), state.generator)
            values = task.space.decode(state.lam.detach() + self.sigma * noise)
            inputs, walk = task.augment_with(values, images, state.generator)
        return AugmentedBatch(inputs, labels, walk, values, noise, self.sigma, draws, task.image_columns)

    def standardized(self, batch: AugmentedBatch, rewards: Tensor) -> Tensor:
        """Advantages (B,) of rewards (B,), in standard deviations."""
        with n_repeats(batch.draws):
            advantages = advantages_of(all_gather(rewards), batch.draws)
            scale = advantages.std().clamp(min=torch.finfo(rewards.dtype).tiny)
            return local_shard(advantages) / scale

    def move_by(self, task: Task, state: GradientState[L], batch: AugmentedBatch, gradient: Tensor) -> None:
        """One step on lambda along a gradient (n,), and a pull to the start of the search."""
        weight = self.divergence_weight
        curvature = weight * divergence_curvature(task.space, batch) if weight else None
        self.move_lambda(task, state, gradient, curvature)


class Lookahead(Rewards):
    """Look-ahead, the default on the operations of the walk alone."""

    name: ClassVar[str] = "lookahead"
    multi_label: ClassVar[bool] = True
    can_be_fast: ClassVar[bool] = True
    shares_batches: ClassVar[bool] = True

    train_steps: Size = 5
    val_batch_size: ValBatchSize = HALF

    def begin(self, task: Task, networks: Networks) -> Any:
        """A network, and lambda at the space's initial values."""
        lam = self.start(task)
        return LookaheadState.of(task, lam, NetworkModel.of(task, networks(0)), mover=self.mover(task, lam))

    def step(self, task: Task, state: LookaheadState) -> None:
        """One training step; after each T_train of them, T_val lambda steps, which judge draws for the images of the
        last batch by other validation images each.
        """
        images, labels = state.train_stream.next()
        trained_on = self.augmented(task, state, images, labels)
        state.totals.add_training(*state.learner.learn(trained_on.images, trained_on.labels))
        state.step += 1
        if self.is_lambda_time(state):
            for number in range(self.val_steps):
                is_new = self.reward_draws > 1 or number > 0
                judged = self.augmented(task, state, images, labels, self.reward_draws) if is_new else trained_on
                self.update_lambda(task, state, judged)

    def update_lambda(self, task: Task, state: LookaheadState, batch: AugmentedBatch) -> None:
        """One step on lambda by the standardized rewards of the batch."""
        learner = state.learner
        loss = self.validation_loss(task, state, learner.network, learner.forward)
        rewards = self.standardized(batch, self.rewards(learner, batch, loss))
        self.move_by(task, state, batch, -expected_score(task.space, batch, rewards))
        state.totals.add_lambda(loss.detach())

    def rewards(self, learner: NetworkModel, batch: AugmentedBatch, loss: Tensor) -> Tensor:
        """Reward of each augmented image (B,), by the network in eval mode. loss: on validation images, with graph."""
        weights = trained_parameters(learner.network)
        direction = preconditioned(learner.optimizer, weights.values(), gradients_of(loss, weights.values()))
        along = dict(zip(weights, direction, strict=True))
        return rewards_of(learner.network, batch, along, derivative=self.reward_derivative)
