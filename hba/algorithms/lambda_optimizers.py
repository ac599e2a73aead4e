"""What moves lambda: Adam, as in STN (MacKay et al. 2019) and HBA; RMSprop, as in Delta-STN (Bae and Grosse 2020)."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from torch import Tensor
from torch.optim import Adam, Optimizer, RMSprop

Kind = Literal["adam", "rmsprop"]
ADAM: Kind = "adam"
RMSPROP: Kind = "rmsprop"
RMSPROP_DECAY = 0.99
"""Of the mean square of its gradients: PyTorch's default."""

LAMBDA_OPTIMIZERS: Mapping[str, Callable[[Sequence[Tensor], float, tuple[float, float]], Optimizer]] = MappingProxyType(
    {
        ADAM: lambda parameters, learning_rate, betas: Adam(parameters, lr=learning_rate, betas=betas),
        RMSPROP: lambda parameters, learning_rate, betas: RMSprop(parameters, lr=learning_rate, alpha=RMSPROP_DECAY),
    }
)
"""By name, a function of leaves, learning rate and Adam's decay rates, which RMSprop does not read; it has no momentum.
"""
