"""Dropout with a tuned rate, which may differ between the images of a batch."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from hba.errors import SettingsError
from hba.hypernet.layers import LambdaContext

DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
"""Layers whose rate can be tuned, besides RatedDropout. All except the first drop whole
channels.
"""


class TunedRates(NamedTuple):
    """Dropout rates that a search tunes."""

    columns: Mapping[str, int]
    """Name of each dropout module to the column of its rate."""
    decode: Callable[[Tensor], Tensor]
    """Maps lambda (..., n) to values."""


class RatedDropout(nn.Module):
    """Base class of your own dropouts with a tuned rate.

    The rate may differ within a batch. Subclasses define `dropped`.

    Args:
        p: The rate in [0, 1].
    """

    of_batch = False
    """Whether the whole batch shares one rate, because the same units are dropped for
    it.
    """

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        self.p = p

    def dropped(self, x: Any, *other_inputs: Any, rate: Tensor) -> Any:
        """Apply dropout to x.

        Args:
            x: The input.
            other_inputs: Other arguments of the module.
            rate: Rate () or (B,), one for each example.
        """
        raise NotImplementedError

    def forward(self, x: Any, *other_inputs: Any) -> Any:
        return (
            self.dropped(x, *other_inputs, rate=torch.tensor(self.p))
            if self.training and self.p
            else x
        )

    def extra_repr(self) -> str:
        return f"p={self.p}"


def scaled_mask(shape: Sequence[int], rate: Tensor) -> Tensor:
    """0 with probability `rate`, otherwise 1 / (1 - rate).

    It is drawn from torch's default generator.

    Args:
        shape: Shape of the mask.
        rate: A tensor with as many dimensions as the shape, or with none. A rate of 1
            keeps nothing.
    """
    drawn = torch.rand(*shape, device=rate.device, dtype=rate.dtype)
    kept = drawn >= rate
    return kept / (1 - rate).clamp(min=torch.finfo(rate.dtype).eps)


class TunedDropout(nn.Module):
    """Replaces a dropout module of that name, and drops like it, at the rate in the
    context.
    """

    def __init__(
        self, layer: nn.Module, name: str, column: int, context: LambdaContext
    ) -> None:
        super().__init__()
        self.layer = layer
        self.name = name
        self.column = column
        self.context = context

    def forward(self, x: Any, *other_inputs: Any) -> Any:
        """x: (B, ...), or the input of a RatedDropout."""
        if not self.training:
            return x
        values = self.context.values
        if isinstance(self.layer, RatedDropout):
            return self.layer.dropped(x, *other_inputs, rate=values[..., self.column])
        if values.ndim == 2 and len(values) != len(x):
            problem = (
                f"the dropout {self.name!r} gets {len(x)} rows for {len(values)} images"
            )
            raise SettingsError(
                f"{problem}, so it cannot have a rate for each image; omit dropout from"
                " tune"
            )
        rate = values[..., self.column].to(x)
        # Leading dimensions that are dropped independently: all, or images and
        # channels.
        n_dimensions = x.ndim if type(self.layer) is nn.Dropout else 2
        shape = (*x.shape[:n_dimensions], *[1] * (x.ndim - n_dimensions))
        return x * scaled_mask(shape, rate.reshape(-1, *[1] * (x.ndim - 1)))

    def to_module(self, values: Tensor) -> nn.Module:
        """The replaced layer, with its rate from values (n,)."""
        self.layer.p = float(values[self.column])  # type: ignore[assignment]
        return self.layer
