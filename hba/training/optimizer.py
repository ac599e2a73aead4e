"""The optimizer of network weights and its learning rate schedule, in search and evaluation alike."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from torch import Tensor
from torch.optim import SGD
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, MultiStepLR

MOMENTUM = 0.9
STEP_FACTOR = 0.1
STEP_NINTHS = (3, 6, 8)
"""Where the step schedule drops, in ninths of the training: epochs 90, 180 and 240 of 270 (paper, Appendix E)."""

LEARNING_RATE_SCHEDULES: Mapping[str, Callable[[SGD, int], LRScheduler]] = MappingProxyType(
    {
        "cosine": lambda optimizer, total_steps: CosineAnnealingLR(optimizer, total_steps),
        "step": lambda optimizer, total_steps: MultiStepLR(
            optimizer, [ninths * total_steps // 9 for ninths in STEP_NINTHS], STEP_FACTOR
        ),
    }
)
"""By name, a function of the optimizer and the number of training steps; both change at every step, not every epoch."""


Parameters = Iterable[Tensor] | Iterable[dict[str, Any]]
"""Tensors, or groups of them with settings of their own, as torch.optim takes them."""


def sgd(
    parameters: Parameters, *, learning_rate: float, schedule: str, weight_decay: float, total_steps: int
) -> tuple[SGD, LRScheduler]:
    """SGD with Nesterov momentum 0.9, and the named schedule of its learning rate over total_steps."""
    optimizer = SGD(parameters, lr=learning_rate, momentum=MOMENTUM, nesterov=True, weight_decay=weight_decay)
    return optimizer, LEARNING_RATE_SCHEDULES[schedule](optimizer, total_steps)


class TrainingSettings(Protocol):
    """What a search and an evaluation are told of the optimizer."""

    @property
    def learning_rate(self) -> float: ...
    @property
    def learning_rate_schedule(self) -> str: ...
    @property
    def weight_decay(self) -> float: ...
    @property
    def epochs(self) -> int: ...


def sgd_of(settings: TrainingSettings, parameters: Parameters, steps_per_epoch: int) -> tuple[SGD, LRScheduler]:
    """The optimizer and the schedule that the settings of a search or an evaluation stand for."""
    return sgd(
        parameters,
        learning_rate=settings.learning_rate,
        schedule=settings.learning_rate_schedule,
        weight_decay=settings.weight_decay,
        total_steps=settings.epochs * steps_per_epoch,
    )
