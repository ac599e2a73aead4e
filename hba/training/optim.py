"""The optimizer of network weights and its learning rate schedule, in searches and
evaluations.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, AdamW, Optimizer, RMSprop
from torch.optim.lr_scheduler import (
    ConstantLR,
    CosineAnnealingLR,
    LinearLR,
    LRScheduler,
    MultiStepLR,
    SequentialLR,
)

from hba.config.training import PLATEAU, TrainingConfig

MOMENTUM = 0.9
DROPS: Mapping[str, tuple[float, tuple[int, ...], int]] = {
    "step": (0.1, (3, 6, 8), 9),
    "step-fifth": (0.2, (3, 6, 9), 10),
}
"""For each schedule that drops: its factor, where it drops, and in how many parts of
the training that is counted.

step: epochs 90, 180 and 240 of 270 (paper, Appendix E). step-fifth: epochs 60, 120 and
180 of 200 (Delta-STN's code).
"""

Parameters = Iterable[Tensor] | Iterable[dict[str, Any]]
"""Tensors, or groups of them with settings of their own, as torch.optim takes them."""

OPTIMIZERS: Mapping[str, Callable[..., Optimizer]] = {
    "sgd": partial(SGD, momentum=MOMENTUM, nesterov=True, foreach=True),
    "sgd-classical": partial(SGD, momentum=MOMENTUM, foreach=True),
    "adamw": AdamW,
}
"""By name, a function of parameters, lr and weight_decay. All weights decay. STN and
Delta-STN use classical momentum; AdamW: Loshchilov and Hutter 2019. foreach is
PyTorch's default on a GPU; on a CPU it gives the same bits faster.
"""


def scheduled(
    optimizer: Optimizer,
    schedule: str,
    total_steps: int,
    warm_up_steps: int = 0,
    plateau_epochs: int | None = None,
) -> LRScheduler:
    """The named schedule of the learning rate over total_steps.

    It changes at every step: step k of w of the warm-up has k / (w + 1) of it.

    Args:
        optimizer: Whose learning rate changes.
        schedule: Its name.
        total_steps: Number of steps, with those of the warm-up.
        warm_up_steps: Number of steps of linear warm-up at the beginning.
        plateau_epochs: The patience of PLATEAU.
    """
    if schedule == PLATEAU:
        assert plateau_epochs is not None
        return Plateau(optimizer, plateau_epochs, warm_up_steps)
    if warm_up_steps:
        warm_up = LinearLR(
            optimizer, 1 / (warm_up_steps + 1), total_iters=warm_up_steps
        )
        after = scheduled(optimizer, schedule, total_steps - warm_up_steps)
        return SequentialLR(optimizer, [warm_up, after], [warm_up_steps])
    if schedule == "cosine":
        return CosineAnnealingLR(optimizer, total_steps)
    if schedule == "constant":
        return ConstantLR(optimizer, factor=1.0, total_iters=0)
    factor, places, parts = DROPS[schedule]
    return MultiStepLR(
        optimizer, [place * total_steps // parts for place in places], factor
    )


class Plateau(LRScheduler):
    """STN's schedule, which reduces the learning rate when the loss stagnates.

    The learning rate is multiplied by `factor` each time that the validation loss has
    reached no new minimum for `patience` epochs (MacKay et al. 2019, appendix E). It
    steps at every training step, as the other schedules do; call `observe` at the end
    of every epoch.

    Args:
        optimizer: Whose learning rate changes.
        patience: Number of epochs.
        warm_up_steps: Number of steps of linear warm-up.
        factor: Of the learning rate.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        patience: int,
        warm_up_steps: int = 0,
        factor: float = 0.1,
    ) -> None:
        self.patience = patience
        self.warm_up_steps = warm_up_steps
        self.factor = factor
        self.least = math.inf
        self.epochs_since = 0
        self.drops = 0
        super().__init__(optimizer)

    def get_lr(self) -> list[float | Tensor]:
        """Learning rates of the next training step, by parameter group."""
        risen = min(1.0, (self.last_epoch + 1) / (self.warm_up_steps + 1))
        return [float(rate) * risen * self.factor**self.drops for rate in self.base_lrs]

    def observe(self, loss: float) -> None:
        """Record the validation loss of a finished epoch, in nats.

        A loss that is not finite is no new minimum.
        """
        if loss < self.least:
            self.least = loss
            self.epochs_since = 0
            return
        self.epochs_since += 1
        if self.epochs_since == self.patience:
            self.epochs_since = 0
            self.drops = self.drops + 1
            self._last_lr = self.get_lr()
            for group, rate in zip(
                self.optimizer.param_groups, self._last_lr, strict=True
            ):
                group["lr"] = rate


def optimizer_for(
    settings: TrainingConfig,
    parameters: Parameters,
    steps_per_epoch: int,
    plateau_epochs: int | None = None,
) -> tuple[Optimizer, LRScheduler]:
    """The optimizer, fused for AdamW and with `fast`, and the schedule.

    Args:
        settings: Of the training.
        parameters: What is trained.
        steps_per_epoch: Number of steps in an epoch.
        plateau_epochs: The patience of PLATEAU.
    """
    is_fused = settings.fast or settings.optimizer == "adamw"
    options = {"fused": True, "foreach": False} if is_fused else {}
    make = OPTIMIZERS[settings.optimizer]
    optimizer = make(
        parameters,
        lr=settings.learning_rate,
        weight_decay=settings.weight_decay,
        **options,
    )
    if isinstance(optimizer, SGD):
        # A fused SGD fails if only some weights have a momentum, as when a layer gets
        # its first gradient later.
        weights = chain.from_iterable(
            group["params"] for group in optimizer.param_groups
        )
        for weight in filter(lambda weight: weight.requires_grad, weights):
            optimizer.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
    warm_up_steps = settings.learning_rate_warm_up_epochs * steps_per_epoch
    total_steps = settings.epochs * steps_per_epoch
    return optimizer, scheduled(
        optimizer,
        settings.learning_rate_schedule,
        total_steps,
        warm_up_steps,
        plateau_epochs,
    )


def gradient_root(optimizer: Optimizer, parameter: Tensor) -> Tensor:
    """The root of the mean squared gradient of each number of a parameter.

    Adam and RMSprop divide gradients by it. Ref: Kingma and Ba 2015, Algorithm 1;
    RMSprop does not correct the bias of the mean. Infinite before the first step.
    """
    group = optimizer.param_groups[0]
    state = optimizer.state.get(parameter)
    if not state:
        return torch.full_like(parameter, torch.inf)
    if isinstance(optimizer, RMSprop):
        mean_square: Tensor = state["square_avg"]
    else:
        # A fused optimizer on a GPU counts steps there; float() would synchronize.
        step = state["step"].double() if state["step"].is_cuda else float(state["step"])
        mean_square = state["exp_avg_sq"] / (1 - group["betas"][1] ** step)
    root: Tensor = mean_square.sqrt() + group["eps"]
    return root


def preconditioned(
    optimizer: Optimizer, parameters: Iterable[Tensor], gradients: Sequence[Tensor]
) -> list[Tensor]:
    """Gradients of the parameters, scaled as the optimizer scales them.

    AdamW scales by gradient_root, SGD not at all.
    """
    if not isinstance(optimizer, AdamW):
        return list(gradients)
    return [
        gradient / gradient_root(optimizer, parameter)
        for parameter, gradient in zip(parameters, gradients, strict=True)
    ]
