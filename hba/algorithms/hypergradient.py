"""Hypernetwork-Based Augmentation (HBA): Algorithm 2 of the paper, the same as its
Algorithm 6; and Algorithm 5.

symbol              in the code                 meaning
phi                 state.learner.hypernetwork  parameters of the hypernetwork
lambda              state.lam                   hyperparameters as logits, shape (n,)
epsilon             noise                       one row for each image of a batch,
                                                shape (B, n)
D_T, D_V            state.train_stream,         batches of training and of validation
                    mover.val_stream            images
A                   problem.augment                the augmentation policy
F(x; theta(lambda)) hypernetwork(x, lam)        the network with the weights that belong
                                                to lambda
alpha, alpha'       learning rates in the optimizers of learner and mover
T_train, T_val      train_steps, val_steps
sigma               sigma_now()                 standard deviation of the noise,
                                                constant or learnt
tau                 sigma_entropy               weight of the entropy of a learnt noise,
                                                in [0, 1]
H                   scale.sigma.log().sum()     sum_j log sigma_j, the entropy up to a
                                                constant
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import softplus
from torch.optim import Optimizer

from hba.algorithms.lambda_steps import (
    GradientState,
    LambdaGradient,
    LambdaMover,
    LambdaSteps,
)
from hba.algorithms.problem import Inputs, SearchProblem
from hba.algorithms.responses import RESPONSES, Augment, Penalty, TrainingBatch
from hba.algorithms.state import HyperModel, Networks, SearchState
from hba.config.training import CommonSearchConfig, Sharing
from hba.data.config import Size
from hba.errors import SettingsError
from hba.tasks import Outputs
from hba.utils.settings import DefaultText

HyperGradientState = GradientState[HyperModel]
Response = Literal["affine", "centered", "separate", "linearized"]
Entropy = Annotated[float, Field(ge=0, le=1)]


@dataclass
class LearntScale:
    """A learnt sigma = softplus(spread)."""

    spread: Tensor
    """The optimizer's parameter (n,)."""
    optimizer: Optimizer
    """The optimizer of the spread."""

    @property
    def sigma(self) -> Tensor:
        """Standard deviation (n,) of the noise in logits, with a graph."""
        return softplus(self.spread)


@dataclass
class ScaledMover(LambdaMover):
    scale: LearntScale


def scale_of(state: GradientState) -> LearntScale | None:
    """The learnt scale of the noise; None if the scale is fixed."""
    return state.mover.scale if isinstance(state.mover, ScaledMover) else None


class Hypergradient(LambdaSteps[HyperGradientState]):
    """Hypernetwork-Based Augmentation. The defaults are the paper's (4, Appendix A)."""

    name: ClassVar[str] = "hba"
    tasks: ClassVar[tuple[str, ...]] = ("classification", "multi-label")
    tunes_training: ClassVar[bool] = True

    initial_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.05
    train_steps: Size = 2
    sharing: Sharing = "first-bn"
    """Weight sharing strategy: which layers depend on lambda."""
    response: Response = "affine"
    """How the weights respond to a change of lambda. `affine` (the paper's): affine in
    lambda. `centered`: affine in the distance from the current lambda. `separate`: as
    centered, with the current weights learned apart from the response, in a pass of
    their own. `linearized`: as separate, with the response learned in the linearized
    network.
    """
    sigma_entropy: Annotated[Entropy | None, DefaultText("none: sigma stays")] = None
    """Weight of the noise's entropy against the validation loss (STN's tau). If given,
    the search also learns the standard deviation of the noise of each hyperparameter,
    starting from sigma.
    """

    def check(self, config: CommonSearchConfig) -> None:
        super().check(config)
        if self.sigma_entropy is not None and self.sigma == 0:
            raise SettingsError(
                "sigma must be above 0 with sigma_entropy, which learns it from that"
                " start, got 0"
            )

    def mover(self, problem: SearchProblem, lam: Tensor) -> LambdaMover:
        mover = super().mover(problem, lam)
        if self.sigma_entropy is None:
            return mover
        inverse_softplus = self.sigma + math.log(-math.expm1(-self.sigma))
        spread = torch.full_like(lam.detach(), inverse_softplus).requires_grad_()
        scale = LearntScale(
            spread, self.optimizer_of([spread], self.lambda_learning_rate)
        )
        return ScaledMover(**vars(mover), scale=scale)

    def begin(self, problem: SearchProblem, networks: Networks) -> HyperGradientState:
        """Line 2: phi from a network, lambda at the space's initial values."""
        lam = self.start(problem)
        learner = HyperModel.of(problem, networks(0), lam, self.sharing)
        state = HyperGradientState.of(
            problem, lam, learner, mover=self.mover(problem, lam)
        )
        self.move_center(state)
        return state

    def step(self, problem: SearchProblem, state: HyperGradientState) -> None:
        """One training step; after each T_train, T_val lambda steps (lines 4 to 12)."""
        batch = self.train_step(problem, state)
        if self.is_lambda_time(state):
            for _ in range(self.val_steps):
                self.update_lambda(problem, state, batch)

    def train_step(
        self, problem: SearchProblem, state: HyperGradientState
    ) -> tuple[Inputs, Tensor]:
        """Update phi on the next batch, a lambda for each image; return the batch."""
        batch = state.train_stream.next()
        state.graphs.run("train", partial(self.update_weights, problem, state), *batch)
        state.learner.schedule.step()
        state.step += 1
        return batch

    def update_weights(
        self,
        problem: SearchProblem,
        state: HyperGradientState,
        inputs: Inputs,
        labels: Tensor,
    ) -> None:
        """One step on phi by a batch, with a lambda for each of its examples."""
        noise = self.noise(problem, state, len(inputs))
        lam_rows = state.lam.detach() + self.sigma_now(state) * noise
        self.learn(problem, state, (inputs, labels), lam_rows)

    def noise(
        self, problem: SearchProblem, state: HyperGradientState, n_images: int
    ) -> Tensor:
        """epsilon (B, n) of the next training step."""
        return problem.noise(n_images, state.generator)

    def learn(
        self,
        problem: SearchProblem,
        state: HyperGradientState,
        batch: tuple[Inputs, Tensor],
        lam_rows: Tensor,
    ) -> None:
        update_phi(problem, state, batch, lam_rows, self.response)

    def gradient(
        self, problem: SearchProblem, state: HyperGradientState, *batches: Any
    ) -> LambdaGradient:
        """Equation 3: the gradient of lambda by validation images.

        It is computed without augmentation, in eval mode. With a learnt sigma, STN's
        eq. 15: the gradients of lambda and sigma, each image at lambda + sigma epsilon.
        The loss is without the entropy. The training batch is not used here.
        """
        hypernetwork = state.learner.hypernetwork
        lam = state.lam
        scale = scale_of(state)

        def predict(images: Tensor) -> Tensor:
            if scale is None:
                return hypernetwork(images, lam)
            return hypernetwork(
                images, lam + scale.sigma * problem.noise(len(images), state.generator)
            )

        loss = self.validation_loss(problem, hypernetwork, predict, *batches[-2:])
        if scale is None or self.sigma_entropy is None:
            return LambdaGradient(loss.detach(), *torch.autograd.grad(loss, [lam]))
        objective = loss - self.sigma_entropy * scale.sigma.log().sum()
        gradient, of_spread = torch.autograd.grad(objective, [lam, scale.spread])
        return LambdaGradient(loss.detach(), gradient, spread=of_spread)

    def move_lambda(
        self,
        problem: SearchProblem,
        state: HyperGradientState,
        lambda_gradient: LambdaGradient,
    ) -> None:
        if (scale := scale_of(state)) is not None:
            scale.spread.grad = lambda_gradient.spread
            scale.optimizer.step()
        super().move_lambda(problem, state, lambda_gradient)
        self.move_center(state)

    def sigma_now(self, state: HyperGradientState) -> float | Tensor:
        scale = scale_of(state)
        return super().sigma_now(state) if scale is None else scale.sigma.detach()

    def move_center(self, state: HyperGradientState) -> None:
        """Set the center of the response to lambda, unless the response is affine."""
        if self.response != "affine":
            state.learner.hypernetwork.center.copy_(state.lam.detach())


@dataclass(kw_only=True)
class FixedNoiseState(HyperGradientState):
    """The state of a search by Algorithm 5."""

    noise: Tensor
    """epsilon (B, n), standard normal; row i is for the i-th image of every batch until
    the next draw.
    """


class FixedNoise(Hypergradient):
    """Algorithm 5, from which the paper derives HBA: it draws the noise once for all
    steps between lambda steps.
    """

    name: ClassVar[str] = "fixed-noise"

    def begin(self, problem: SearchProblem, networks: Networks) -> FixedNoiseState:
        begun = super().begin(problem, networks)
        noise = torch.zeros(
            begun.train_stream.batch_size, problem.space.n, device=problem.device
        )
        return FixedNoiseState(**vars(begun), noise=noise)

    def train_step(
        self, problem: SearchProblem, state: HyperGradientState
    ) -> tuple[Inputs, Tensor]:
        assert isinstance(state, FixedNoiseState)
        if state.step % self.train_steps == 0:
            drawn = torch.empty_like(state.noise, device=state.generator.device)
            state.noise.copy_(drawn.normal_(generator=state.generator))
        return super().train_step(problem, state)

    def noise(
        self, problem: SearchProblem, state: HyperGradientState, n_images: int
    ) -> Tensor:
        assert isinstance(state, FixedNoiseState)
        return state.noise


def update_phi(
    problem: SearchProblem,
    state: SearchState[HyperModel],
    batch: tuple[Inputs, Tensor],
    lam_rows: Tensor,
    response: str = "affine",
    augment: Augment | None = None,
) -> None:
    """Equations 2 and 4: one SGD step on a batch with a lambda for each image.

    Args:
        problem: The problem of the search.
        state: State of any search that trains a hypernetwork.
        batch: Inputs and labels.
        lam_rows: lambda of each image (B, n).
        response: A key of RESPONSES.
        augment: Makes the network's input; by default, the policy at the lambda of the
            weights.
    """
    learner = state.learner
    inputs, labels = batch
    learner.hypernetwork.train()
    learner.optimizer.zero_grad()
    augment = augment or partial(problem.augment, generator=state.generator)
    penalty = penalty_of(problem, learner)
    training = TrainingBatch(
        learner.hypernetwork,
        augment,
        problem.task.loss,
        inputs,
        labels,
        lam_rows,
        penalty,
    )
    loss, outputs = RESPONSES[response](training)
    learner.update()
    state.totals.add_training(loss, problem.task.error_share(outputs, labels))


def penalty_of(problem: SearchProblem, learner: HyperModel) -> Penalty | None:
    """The penalty of the space's regularizers on the loss of a batch; None without one.

    As in SGD, weight decay adds half of its value times the squared norm of each
    image's weights. Others depend on outputs and labels.
    """
    regularization = problem.regularization
    column = problem.regularization.weight_decay_column
    if column is None and not regularization.has_penalty:
        return None

    def penalty(outputs: Outputs, labels: Tensor, lam_rows: Tensor) -> Tensor:
        values = problem.space.decode(lam_rows)
        total = regularization.penalty(outputs, labels, values)
        if column is None:
            return total
        return (
            total
            + (values[:, column] * learner.hypernetwork.squared_norm(lam_rows)).mean()
            / 2
        )

    return penalty
