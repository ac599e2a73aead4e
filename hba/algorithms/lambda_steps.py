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

from hba.algorithms.algorithm import Algorithm
from hba.algorithms.state import L, SearchState
from hba.algorithms.task import Task
from hba.algorithms.update_schedule import OF_OPERATION, UpdateSchedule
from hba.config.training import CommonSearchConfig, Decay, NotNegative, Positive
from hba.data.config import Size
from hba.data.loader import BatchStream
from hba.errors import SettingsError
from hba.operations.operation import WALK
from hba.policy.space import SearchSpace
from hba.policy.spaces import strong_end
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
    """Coordinates that move many hyperparameters together.

    Attributes:
        offsets: moves in logits, (m,).
        optimizer: of the offsets.
    """

    offsets: Tensor
    optimizer: Optimizer

    @torch.no_grad()
    def moved(self, space: SearchSpace, gradient: Tensor) -> Tensor:
        """Make one step along the gradient (n,) of lambda; return the change of lambda
        (n,).
        """
        towards = directions(space, gradient.device, gradient.dtype)
        before = self.offsets.detach().clone()
        self.offsets.grad = towards @ gradient
        self.optimizer.step()
        return (self.offsets - before) @ towards

    def rates(self, space: SearchSpace) -> Tensor:
        """(n, n): the shared coordinates move lambda by -rates g for a mean gradient g
        (n,).
        """
        towards = directions(space, self.offsets.device, self.offsets.dtype)
        return towards.T * optimizer_rates(self.optimizer, self.offsets) @ towards


@dataclass
class LambdaMover:
    """Everything that updates lambda. start (n,): lambda at the beginning of the
    search. optimizer: of lambda. val_stream: batches of D_V. strength: the shared
    directions.
    """

    start: Tensor
    optimizer: Optimizer
    val_stream: BatchStream
    strength: SharedDirections


@dataclass(kw_only=True)
class GradientState(SearchState[L]):
    """The state of a search by gradient steps; the optimizer of the mover updates lam
    in place.
    """

    mover: LambdaMover


class LambdaGradient(NamedTuple):
    """loss (): of a validation batch. lam (n,): the gradient of lambda. curvature (n,):
    of the pull to the start, per squared logit; None for no pull. spread (n,): the
    gradient of a learnt scale of the noise, or None.
    """

    loss: Tensor
    lam: Tensor
    curvature: Tensor | None = None
    spread: Tensor | None = None


class LambdaSteps(Algorithm):
    """Base class of algorithms that update lambda along a gradient of the validation
    loss (equation 3).
    """

    tried_steps: ClassVar[int] = 0
    """The fewest lambda steps known to be enough; 0 if unknown."""
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
    """Validation images in a batch, or columns of a text; half means half of
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

    def check(self, config: CommonSearchConfig) -> None:
        if self.warm_up_epochs >= config.epochs:
            found = (
                f"got {self.warm_up_epochs} of {config.epochs}; lower warm_up_epochs,"
                " or raise epochs"
            )
            raise SettingsError(f"warm_up_epochs must be less than epochs, {found}")
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

    def mover(self, task: Task, lam: Tensor) -> LambdaMover:
        """Return the mover of a lambda, which must be on its device already."""
        offsets = torch.zeros(
            len(directions(task.space, lam.device)),
            device=lam.device,
            requires_grad=True,
        )
        shared_optimizer = self.optimizer_of([offsets], self.strength_learning_rate)
        optimizer = self.optimizer_of([lam.requires_grad_()], self.lambda_learning_rate)
        val_stream = task.val_stream(
            val_batch_size_of(self.val_batch_size, task.config.batch_size)
        )
        strength = SharedDirections(offsets, shared_optimizer)
        return LambdaMover(lam.detach().clone(), optimizer, val_stream, strength)

    def optimizer_of(self, leaves: list[Tensor], learning_rate: float) -> Optimizer:
        """The optimizer that lambda_optimizer names. RMSprop, without momentum, ignores
        lambda_betas.
        """
        if self.lambda_optimizer == "rmsprop":
            return RMSprop(leaves, lr=learning_rate, alpha=0.99)
        return Adam(leaves, lr=learning_rate, betas=self.lambda_betas)

    def is_lambda_time(self, state: GradientState[L]) -> bool:
        """After each T_train training steps, once the warm-up is over."""
        return (
            state.step % self.train_steps == 0
            and state.step > self.warm_up_epochs * state.steps_per_epoch
        )

    def validation_loss(
        self,
        task: Task,
        state: GradientState[L],
        network: nn.Module,
        predict: Callable[[Any], Any],
        *batch: Any,
    ) -> Tensor:
        """Mean loss () on a validation batch, inputs and labels, without augmentation,
        in eval mode, with a graph.
        """
        network.eval()
        inputs, labels = batch
        outputs = predict(task.as_measured(inputs))
        task.carry(state.mover.val_stream, outputs)
        return task.loss_of(outputs, labels)

    def gradient(self, task: Task, state: Any, *batches: Any) -> LambdaGradient:
        """The gradient of lambda. batches: inputs and labels of the last training
        batch, and of a validation batch.
        """
        raise NotImplementedError

    def update_lambda(
        self, task: Task, state: GradientState[L], batch: Any, *further: Any
    ) -> None:
        """Make one step on lambda after a training batch. further: more arguments of
        `gradient`.
        """
        gradient = partial(self.gradient, task, state, *further)
        # A graph would read the tensors of `further` where they were when it was
        # recorded.
        graphs = EAGER if further else state.graphs
        found = graphs.run("lambda", gradient, *batch, *state.mover.val_stream.next())
        self.move_lambda(task, state, found)

    def move_lambda(
        self, task: Task, state: GradientState[L], found: LambdaGradient
    ) -> None:
        """Make one step on lambda and the shared coordinates, then pull lambda to the
        start.
        """
        mover, gradient, curvature = (
            state.mover,
            found.lam * task.space.is_searched(state.device),
            found.curvature,
        )
        state.totals.add_lambda(found.loss)
        state.lam.grad = gradient
        mover.optimizer.step()
        with torch.no_grad():
            if self.strength_learning_rate:
                state.lam += mover.strength.moved(task.space, gradient)
            if curvature is not None:
                rates = optimizer_rates(mover.optimizer, state.lam).diag()
                if self.strength_learning_rate:
                    rates += mover.strength.rates(task.space)
                state.lam.copy_(
                    proximal_step(state.lam.detach(), mover.start, curvature, rates)
                )


def optimizer_rates(optimizer: Optimizer, parameter: Tensor) -> Tensor:
    """How far Adam or RMSprop would now move each entry of a parameter (n,) for a mean
    gradient of 1.

    The optimizer must have made at least one step.
    """
    return optimizer.param_groups[0]["lr"] / gradient_root(optimizer, parameter)


def proximal_step(
    lam: Tensor, start: Tensor, curvature: Tensor, rates: Tensor
) -> Tensor:
    """lambda (n,) after one step down half of curvature (n,) times its squared distance
    from start (n,).

    rates (n, n), positive semi-definite: a gradient g would move lambda by -rates g.
    The step is implicit: it uses the gradient at its end, so it does not overshoot for
    any curvature.
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
    """Matrix (m, n) with the direction of each shared coordinate: the 4 of SHARED, one
    for the probabilities of each operation on images, and, if K is searched, one for
    each number of K. Operations outside the walk share with none.

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
            end, (low, high) = (
                strong_end(slot.operation, slot.copy),
                slot.operation.magnitude_range or (0, 0),
            )
            rows[2 + is_color, slot.magnitude] = (
                0 if end is None or low == high else 1 if end == high else -1
            )
    if n_counts:
        rows[-n_counts:, space.count_columns] = torch.eye(n_counts)
    return rows.to(device, dtype)


def val_batch_size_of(val_batch_size: int | str | None, batch_size: int) -> int:
    """Number of validation images in a batch, from the setting and the batch size of
    the training.
    """
    if val_batch_size is None:
        return batch_size
    if val_batch_size == HALF:
        # BatchNorm that uses the statistics of the batch needs two images.
        return max(batch_size // 2, min(2, batch_size))
    return int(val_batch_size)
