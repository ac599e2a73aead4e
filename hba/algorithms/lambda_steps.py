"""Gradient steps on lambda, which look-ahead and Algorithms 5 and 6 share: settings,
state, and the step.

Optimizer. Adam, as in STN (MacKay et al. 2019) and HBA, or RMSprop, as in Delta-STN
(Bae and Grosse 2020).

Shared directions. The strength of a policy matters more than its choice of operations,
but dozens of noisy coordinates change the strength slowly, because each learns only
from the few images to which its slot was applied. A shared coordinate learns from all
images: its gradient is the sum of the gradients of its columns. Its steps are added to
lambda, so nothing else in a search needs to know about it.

Pull. If the pull to the start of the search were part of the gradient, Adam would
average it over several steps, and lambda would oscillate around its limit. Instead, the
pull is a proximal step after each step of the optimizer, decoupled from the momentum
like weight decay in AdamW (Loshchilov and Hutter 2019).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, Self

import torch
from pydantic import BeforeValidator, Field
from torch import Tensor, nn
from torch.optim import Adam, Optimizer, RMSprop
from typing_extensions import TypeVar

from hba.algorithms.algorithm import Algorithm, ConfigT
from hba.algorithms.problem import Batches, Inputs, SearchProblem
from hba.algorithms.state import L, SearchState
from hba.algorithms.update_schedule import OF_OPERATION, UpdateSchedule
from hba.config.training import CommonSearchConfig, Decay, NotNegative, Positive
from hba.data.config import Size
from hba.errors import SettingsError
from hba.operations.operation import WALK
from hba.policy.space import SearchSpace
from hba.policy.spaces import strong_end
from hba.tasks import Outputs
from hba.training.optim import gradient_root
from hba.utils.graphs import EAGER
from hba.utils.settings import DefaultText, words
from hba.utils.tensors import device_constant

LambdaOptimizer = Literal["adam", "rmsprop"]
SHARED = (
    "geometric probabilities",
    "color probabilities",
    "geometric magnitudes",
    "color magnitudes",
)
"""Geometric operations are those that uncover pixels, including Cutout; all others are
color operations.
"""
HALF: Final = "half"
AtLeastZero = Annotated[int, Field(ge=0)]
Betas = Annotated[tuple[Decay, Decay], BeforeValidator(words)]
ValBatchSize = Annotated[Size | Literal["half"] | None, DefaultText("as batch_size")]


@dataclass
class SharedDirections:
    """Coordinates that move many hyperparameters together."""

    offsets: Tensor
    """Moves (m,) in logits."""
    optimizer: Optimizer
    """The optimizer of both."""

    @torch.no_grad()
    def moved(self, space: SearchSpace, gradient: Tensor) -> Tensor:
        """Step along lambda's gradient (n,); return the change of lambda (n,)."""
        towards = directions(space, gradient.device, gradient.dtype)
        before = self.offsets.detach().clone()
        self.offsets.grad = towards @ gradient
        self.optimizer.step()
        return (self.offsets - before) @ towards

    def rates(self, space: SearchSpace) -> Tensor:
        """(n, n): shared coordinates move lambda by -rates g for a mean gradient g."""
        towards = directions(space, self.offsets.device, self.offsets.dtype)
        return towards.T * optimizer_rates(self.optimizer, self.offsets) @ towards


@dataclass
class LambdaMover:
    """Everything that updates lambda."""

    start: Tensor
    """lambda (n,) at the beginning of the search."""
    optimizer: Optimizer
    """The optimizer of lambda."""
    val_stream: Batches
    """Batches of D_V."""
    strength: SharedDirections
    """The shared directions."""


@dataclass(kw_only=True)
class GradientState(SearchState[L]):
    """The state of a gradient search; the mover's optimizer updates lam in place."""

    mover: LambdaMover


class LambdaGradient(NamedTuple):
    """A gradient of lambda from one validation batch."""

    loss: Tensor
    """Loss () of the validation batch."""
    lam: Tensor
    """The gradient (n,) of lambda."""
    curvature: Tensor | None = None
    """Curvature (n,) of the pull to the start, per squared logit; None for no pull."""
    spread: Tensor | None = None
    """The gradient (n,) of a learnt scale of the noise, or None."""


GradientStateT = TypeVar("GradientStateT", bound=GradientState, default=Any)


class LambdaSteps(Algorithm[GradientStateT, SearchProblem]):
    """Base class: moves lambda along a gradient of the validation loss (equation 3)."""

    tried_steps: ClassVar[int] = 0
    """The fewest lambda steps known to be enough; 0 if unknown."""
    of_operations: ClassVar[tuple[str, ...]] = (
        *Algorithm.of_operations,
        "strength_learning_rate",
    )

    warm_up_epochs: AtLeastZero = 0
    """Epochs before the first lambda step."""
    lambda_learning_rate: Positive = 0.03
    """Learning rate of the hyperparameters (alpha')."""
    lambda_optimizer: LambdaOptimizer = "adam"
    """Optimizer of the hyperparameters: adam, or rmsprop with a decay rate of 0.99."""
    lambda_betas: Betas = (0.9, 0.999)
    """Adam's two decay rates on the hyperparameters, separated by commas."""
    strength_learning_rate: NotNegative = 0.0
    """Learning rate of coordinates that hyperparameters share: probabilities and
    magnitudes, for geometric and for color operations; the probabilities of an
    operation's copies; the number of operations of an image. 0: none.
    """
    val_steps: AtLeastZero = 1
    """Consecutive lambda steps (T_val); 0 turns the search off."""
    val_batch_size: ValBatchSize = None
    """Size of a validation batch, in the unit of batch_size; half means half of
    batch_size.
    """

    @property
    def update_schedule(self) -> UpdateSchedule:
        stride = (
            self.lambda_learning_rate + (1 + OF_OPERATION) * self.strength_learning_rate
        )
        return UpdateSchedule(
            self.train_steps,
            self.val_steps,
            self.warm_up_epochs,
            stride,
            self.tried_steps,
        )

    def config_for_timing(self, config: ConfigT) -> ConfigT:
        algorithm = self.model_copy(update={"warm_up_epochs": 0})
        return config.model_copy(update={"algorithm": algorithm})

    def check(self, config: CommonSearchConfig) -> None:
        if self.warm_up_epochs >= config.epochs:
            details = (
                f"got {self.warm_up_epochs} of {config.epochs}; lower warm_up_epochs,"
                " or raise epochs"
            )
            raise SettingsError(f"warm_up_epochs must be less than epochs, {details}")
        if (
            self.lambda_optimizer != "adam"
            and self.lambda_betas != type(self).model_fields["lambda_betas"].default
        ):
            raise SettingsError(
                "lambda_betas has no effect on lambda_optimizer"
                f" {self.lambda_optimizer}; omit one"
            )

    def resolved(self, batch_size: int) -> Self:
        if self.val_batch_size != HALF:
            return self
        return self.model_copy(
            update={
                "val_batch_size": val_batch_size_of(self.val_batch_size, batch_size)
            }
        )

    def mover(self, problem: SearchProblem, lam: Tensor) -> LambdaMover:
        """Return the mover of a lambda, which must be on its device already."""
        offsets = torch.zeros(
            len(directions(problem.space, lam.device)),
            device=lam.device,
            requires_grad=True,
        )
        shared_optimizer = self.optimizer_of([offsets], self.strength_learning_rate)
        optimizer = self.optimizer_of([lam.requires_grad_()], self.lambda_learning_rate)
        val_stream = problem.val_stream(
            val_batch_size_of(self.val_batch_size, problem.config.batch_size)
        )
        strength = SharedDirections(offsets, shared_optimizer)
        return LambdaMover(lam.detach().clone(), optimizer, val_stream, strength)

    def optimizer_of(self, leaves: list[Tensor], learning_rate: float) -> Optimizer:
        """The lambda_optimizer. RMSprop, without momentum, ignores lambda_betas."""
        if self.lambda_optimizer == "rmsprop":
            return RMSprop(leaves, lr=learning_rate, alpha=0.99)
        return Adam(leaves, lr=learning_rate, betas=self.lambda_betas)

    def is_lambda_time(self, state: GradientStateT) -> bool:
        """After each T_train training steps, once the warm-up is over."""
        return (
            state.step % self.train_steps == 0
            and state.step > self.warm_up_epochs * state.steps_per_epoch
        )

    def validation_loss(
        self,
        problem: SearchProblem,
        network: nn.Module,
        predict: Callable[[Inputs], Outputs],
        *batch: Any,
    ) -> Tensor:
        """Mean loss () on a validation batch, with a graph.

        It is measured without augmentation, in eval mode.

        Args:
            problem: The problem of the search.
            network: The network, which is set to eval mode.
            predict: Maps inputs to outputs.
            batch: Inputs and labels.
        """
        network.eval()
        inputs, labels = batch
        outputs = predict(problem.as_measured(inputs))
        return problem.task.loss(outputs, labels)

    def gradient(
        self, problem: SearchProblem, state: GradientStateT, *batches: Any
    ) -> LambdaGradient:
        """The gradient of lambda.

        Args:
            problem: The problem of the search.
            state: The state of the search.
            batches: Inputs and labels of the last training batch, and of a validation
                batch.
        """
        raise NotImplementedError

    def update_lambda(
        self,
        problem: SearchProblem,
        state: GradientStateT,
        batch: tuple[Inputs, Tensor],
        *other_arguments: Any,
    ) -> None:
        """Step lambda after a training batch.

        Args:
            problem: The problem of the search.
            state: The state, which is changed in place.
            batch: The training batch.
            other_arguments: More arguments of `gradient`.
        """
        gradient = partial(self.gradient, problem, state, *other_arguments)
        # A graph would read the tensors of other_arguments where they were when it was
        # recorded.
        graphs = EAGER if other_arguments else state.graphs
        lambda_gradient = graphs.run(
            "lambda", gradient, *batch, *state.mover.val_stream.next()
        )
        self.move_lambda(problem, state, lambda_gradient)

    def move_lambda(
        self,
        problem: SearchProblem,
        state: GradientStateT,
        lambda_gradient: LambdaGradient,
    ) -> None:
        """Step lambda and the shared coordinates, then pull lambda to the start."""
        mover = state.mover
        gradient = lambda_gradient.lam * problem.space.is_searched(state.device)
        curvature = lambda_gradient.curvature
        state.totals.add_lambda(lambda_gradient.loss)
        state.lam.grad = gradient
        mover.optimizer.step()
        with torch.no_grad():
            if self.strength_learning_rate:
                state.lam += mover.strength.moved(problem.space, gradient)
            if curvature is not None:
                rates = optimizer_rates(mover.optimizer, state.lam).diag()
                if self.strength_learning_rate:
                    rates += mover.strength.rates(problem.space)
                state.lam.copy_(
                    proximal_step(state.lam.detach(), mover.start, curvature, rates)
                )


def optimizer_rates(optimizer: Optimizer, parameter: Tensor) -> Tensor:
    """How far an optimizer would move a parameter now, for a mean gradient of 1.

    Args:
        optimizer: Adam or RMSprop, which must have made at least one step.
        parameter: The parameter (n,).

    Returns:
        The distance of each entry (n,).
    """
    return optimizer.param_groups[0]["lr"] / gradient_root(optimizer, parameter)


def proximal_step(
    lam: Tensor, start: Tensor, curvature: Tensor, rates: Tensor
) -> Tensor:
    """lambda (n,) after one step towards its start.

    The step goes down half of the curvature times the squared distance from the start.
    It is implicit: it uses the gradient at its end, so it does not overshoot for any
    curvature.

    Args:
        lam: lambda (n,).
        start: The start (n,).
        curvature: Curvature (n,).
        rates: Matrix (n, n), positive semi-definite: a gradient g would move lambda by
            -rates g.
    """
    towards_start = (
        torch.eye(len(lam), dtype=lam.dtype, device=lam.device) + rates * curvature
    )
    # Unlike solve, solve_ex does not synchronize with a GPU; the end of the epoch
    # checks that all is finite.
    return start + torch.linalg.solve_ex(towards_start, lam - start)[0]


@device_constant
def directions(
    space: SearchSpace, device: torch.device, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Matrix (m, n) with the direction of each shared coordinate.

    These are the 4 of SHARED, one for the probabilities of each operation on images,
    and, if K is searched, one for each number of K. Operations outside the walk share
    with none.

    The sign of a magnitude points away from the value that changes no image (see
    strong_end); it is 0 if unknown.
    """
    n_counts = space.max_count if space.searches_count else 0
    n_operations = len(space.operations) - len(space.mixing)
    rows = torch.zeros(len(SHARED) + n_operations + n_counts, space.n)
    for slot in space.slots:
        rows[len(SHARED) + slot.number, slot.probability] = OF_OPERATION
        if slot.operation.stage != WALK:
            continue
        is_color = not slot.operation.uses_fill
        rows[int(is_color), slot.probability] = 1
        if slot.magnitude is not None:
            end = strong_end(slot.operation, slot.copy)
            low, high = slot.operation.magnitude_range or (0, 0)
            is_known = end is not None and low != high
            sign = 1 if end == high else -1
            rows[2 + is_color, slot.magnitude] = sign if is_known else 0
    if n_counts:
        rows[-n_counts:, space.count_columns] = torch.eye(n_counts)
    return rows.to(device, dtype)


def val_batch_size_of(val_batch_size: int | str | None, batch_size: int) -> int:
    """Images in a validation batch, from the setting and the training's batch size."""
    if val_batch_size is None:
        return batch_size
    if val_batch_size == HALF:
        # BatchNorm that uses the statistics of the batch needs two images.
        return max(batch_size // 2, min(2, batch_size))
    return int(val_batch_size)
