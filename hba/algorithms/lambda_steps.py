"""Lambda steps by gradient descent, which look-ahead and Algorithms 5 and 6 share: settings, state, and the step."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Final, Literal, Self

import torch
from pydantic import BeforeValidator, Field
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer

from hba.algorithms.algorithm import Noisy
from hba.algorithms.lambda_optimizers import (
    ADAM,
    LAMBDA_OPTIMIZERS,
    Kind,
    SharedDirections,
    largest_stride,
    optimizer_rates,
    proximal_step,
)
from hba.algorithms.state import L, SearchState
from hba.algorithms.task import Task
from hba.algorithms.update_schedule import UpdateSchedule
from hba.config.training import CommonSearchConfig, Decay, NotNegative, Positive
from hba.data.config import Size
from hba.data.labels import is_multi_label
from hba.data.loader import BatchStream
from hba.distributed.collectives import all_gather
from hba.errors import SettingsError
from hba.training.criterion import loss_of, losses_of
from hba.utils.devices import device_constant
from hba.utils.settings import DefaultText, words

WarmUp = Annotated[Annotated[int, Field(ge=0)] | None, DefaultText("half of all")]
Betas = Annotated[tuple[Decay, Decay], BeforeValidator(words)]
HALF: Final = "half"
ValBatchSize = Annotated[Size | Literal["half"] | None, DefaultText("as batch_size")]


@dataclass
class LambdaMover:
    """start (n,): lambda at the beginning of the search. optimizer: of lambda. val_stream: batches of D_V. strength:
    the shared directions, which need a learning rate to move.
    """

    start: Tensor
    optimizer: Optimizer
    val_stream: BatchStream
    strength: SharedDirections


@dataclass(kw_only=True)
class GradientState(SearchState[L]):
    """lam is a leaf that the mover's optimizer moves."""

    mover: LambdaMover


class LambdaSteps(Noisy):
    """An algorithm that moves lambda by an optimizer along a gradient of the validation loss (equation 3)."""

    warm_up_epochs: WarmUp = 0
    """Epochs before the first lambda step."""
    lambda_learning_rate: Positive = 0.03
    """Learning rate of the hyperparameters (alpha')."""
    lambda_optimizer: Kind = ADAM
    """Optimizer of the hyperparameters: adam, or rmsprop with a decay rate of 0.99."""
    lambda_betas: Betas = (0.9, 0.999)
    """Adam's two decay rates on the hyperparameters, separated by commas."""
    strength_learning_rate: NotNegative = 0.0
    """Learning rate of the coordinates that hyperparameters share: probabilities and magnitudes, of geometric and of
    colour operations each; the probabilities of an operation's copies; how many operations an image gets. 0 for
    none."""
    trust_radius: Annotated[Positive | None, DefaultText("no limit")] = None
    """Largest Euclidean length of a lambda step, in logits."""
    logit_bound: Annotated[Positive | None, DefaultText("no limit")] = None
    """Largest absolute logit of a hyperparameter."""
    val_steps: Annotated[int, Field(ge=0)] = 1
    """Lambda steps in a row (T_val); 0 switches the search off."""
    val_batch_size: ValBatchSize = None
    """Validation images of a batch, or columns of a text; half is half of batch_size."""
    val_batches: Size = 1
    """Validation batches whose gradients are averaged in a lambda step."""
    val_statistics: Literal["running", "batch"] = "running"
    """What BatchNorm normalizes validation images of a lambda step with."""
    sigma_end: Annotated[NotNegative | None, DefaultText("as sigma")] = None
    """Standard deviation of the noise at the end of the search, reached linearly."""
    calibrate: bool = False
    """Divide the validation logits of a lambda step by the temperature that suits them best."""

    @property
    def update_schedule(self) -> UpdateSchedule:
        stride = largest_stride(self.lambda_learning_rate, self.strength_learning_rate)
        return UpdateSchedule(self.train_steps, self.val_steps, self.warm_up_epochs, stride)

    def check(self, config: CommonSearchConfig) -> None:
        if self.warm_up_epochs and self.warm_up_epochs >= config.epochs:
            raise SettingsError(
                "warm_up_epochs must leave epochs for lambda steps, "
                f"got {self.warm_up_epochs} of {config.epochs} epochs; lower warm_up_epochs, or raise epochs"
            )
        if self.lambda_optimizer != ADAM and self.lambda_betas != type(self).model_fields["lambda_betas"].default:
            raise SettingsError(
                f"lambda_betas has no effect where lambda_optimizer is {self.lambda_optimizer}; omit one of them"
            )

    def resolved(self, batch_size: int) -> Self:
        if self.val_batch_size != HALF:
            return self
        return self.model_copy(update={"val_batch_size": self.validated_at_once(batch_size)})

    def validated_at_once(self, batch_size: int) -> int:
        """Validation images of a batch. batch_size: of training."""
        return images_at_once(self.val_batch_size, batch_size)

    def mover(self, task: Task, lam: Tensor) -> LambdaMover:
        """For a lambda that is on its device."""
        start = lam.detach().clone()
        optimizer = self.optimizer_of(lam.requires_grad_())
        val_stream = task.val_stream(self.validated_at_once(task.config.batch_size))
        strength = SharedDirections.of(
            task.space, self.strength_learning_rate, self.lambda_betas, lam.device, self.lambda_optimizer
        )
        return LambdaMover(start, optimizer, val_stream, strength)

    def optimizer_of(self, leaf: Tensor) -> Optimizer:
        """Of lambda, and of what is learnt beside it at the same rate."""
        return LAMBDA_OPTIMIZERS[self.lambda_optimizer]([leaf], self.lambda_learning_rate, self.lambda_betas)

    def is_lambda_time(self, task: Task, state: GradientState[L]) -> bool:
        """After each T_train training steps, once the warm-up is over."""
        warm_up_steps = self.update_schedule.warm_up_of(task.config.epochs) * state.steps_per_epoch
        return state.step % self.train_steps == 0 and state.step > warm_up_steps

    def spread_now(self, task: Task, state: GradientState[L]) -> float | list[float]:
        sigma = self.sigma_now(task, state)
        found: float | list[float] = sigma.tolist() if isinstance(sigma, Tensor) else sigma
        return found

    def sigma_now(self, task: Task, state: GradientState[L]) -> float | Tensor:
        """Standard deviation of the noise on lambda at this step, a number or one for each (n,); linear from sigma to
        sigma_end.
        """
        if self.sigma_end is None:
            return self.sigma
        progress = state.step / (task.config.epochs * state.steps_per_epoch)
        return self.sigma + progress * (self.sigma_end - self.sigma)

    def validation_loss(self, task: Task, state: GradientState[L], predict: Callable[[Tensor], Tensor]) -> Tensor:
        """Mean loss on the next val_batches batches, not augmented; predict gives logits of such images."""
        losses = []
        for _ in range(self.val_batches):
            images, labels = state.mover.val_stream.next()
            outputs = predict(task.as_measured(images))
            task.carry(state.mover.val_stream, outputs)
            losses.append(self.loss(outputs, labels))
        return torch.stack(losses).mean()

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Of validation images, whose logits are (B, classes): their mean, at the best temperature if so set.

        The temperature is found without a gradient and then held.
        """
        if self.calibrate:
            logits = logits / best_temperature(all_gather(logits.detach()), all_gather(labels))
        return loss_of(logits, labels)

    def move_lambda(
        self,
        task: Task,
        state: GradientState[L],
        gradient: Tensor,
        of_spread: Tensor | None = None,
        curvature: Tensor | None = None,
    ) -> None:
        """One step on lambda (n,) and on what is shared, and the pull to the start that follows it; together not
        longer than the trust radius, into the bounds.

        of_spread (): the gradient of the logarithm of the noise's standard deviation. curvature (n,): of the pull, per
        squared logit; None for none.
        """
        before = state.lam.detach().clone()
        state.lam.grad = gradient
        state.mover.optimizer.step()
        with torch.no_grad():
            if self.strength_learning_rate:
                state.lam += state.mover.strength.moved(task.space, gradient, of_spread)
            if curvature is not None:
                state.lam.copy_(self.pulled(task, state, curvature))
            if self.trust_radius is not None:
                move = state.lam - before
                state.lam.copy_(before + move * (self.trust_radius / move.norm().clamp(min=self.trust_radius)))
            if self.logit_bound is not None:
                state.lam.clamp_(-self.logit_bound, self.logit_bound)

    def pulled(self, task: Task, state: GradientState[L], curvature: Tensor) -> Tensor:
        """lambda (n,) after a pull by its own rates and by those of what is shared."""
        mover = state.mover
        rates = optimizer_rates(mover.optimizer, state.lam).diag()
        if self.strength_learning_rate:
            rates += mover.strength.rates(task.space)
        return proximal_step(state.lam.detach(), mover.start, curvature, rates)


def images_at_once(val_batch_size: int | str | None, batch_size: int) -> int:
    """What the setting stands for, beside a batch of training images."""
    if val_batch_size is None:
        return batch_size
    if val_batch_size == HALF:
        # BatchNorm by the batch needs two images.
        return max(batch_size // 2, min(2, batch_size))
    return int(val_batch_size)


@contextmanager
def validation_statistics(network: nn.Module, statistics: str) -> Iterator[None]:
    """For a network in eval mode: with `batch`, BatchNorm normalizes by the batch; its own statistics stay."""
    layers = [layer for layer in network.modules() if isinstance(layer, _BatchNorm) and layer.track_running_stats]
    if statistics == "running":
        layers = []
    for layer in layers:
        # Without tracking, PyTorch neither reads nor writes the running statistics.
        layer.training, layer.track_running_stats = True, False
    try:
        yield
    finally:
        for layer in layers:
            layer.training, layer.track_running_stats = False, True


@device_constant
def _temperatures(device: torch.device) -> Tensor:
    return torch.logspace(-1, 2, 121, device=device)


def best_temperature(logits: Tensor, labels: Tensor) -> Tensor:
    """The temperature in [0.1, 100] that minimises the loss of logits / temperature; a scalar tensor.

    Tries a fixed logarithmic scale, 6 % from one to the next, so nothing has to leave the device.
    """
    temperatures = _temperatures(logits.device)
    scaled = logits / temperatures[:, None, None]
    if is_multi_label(labels):
        losses = losses_of(scaled.flatten(0, 1), labels.repeat(len(temperatures), 1)).view(len(temperatures), -1)
    else:
        losses = -scaled.log_softmax(dim=2)[:, torch.arange(len(labels), device=labels.device), labels]
    # Indexing by a scalar tensor would read it on the host.
    return temperatures.gather(0, losses.mean(dim=1).argmin(keepdim=True))[0]
