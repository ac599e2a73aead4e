"""The optimizer of network weights, in search and evaluation alike."""

from collections.abc import Iterable

from torch import nn
from torch.optim import SGD
from torch.optim.lr_scheduler import CosineAnnealingLR

MOMENTUM = 0.9


def sgd_with_cosine(
    parameters: Iterable[nn.Parameter], learning_rate: float, weight_decay: float, total_steps: int
) -> tuple[SGD, CosineAnnealingLR]:
    """SGD with Nesterov momentum 0.9, and a cosine decay of its learning rate to 0 over total_steps."""
    optimizer = SGD(parameters, lr=learning_rate, momentum=MOMENTUM, nesterov=True, weight_decay=weight_decay)
    return optimizer, CosineAnnealingLR(optimizer, total_steps)
