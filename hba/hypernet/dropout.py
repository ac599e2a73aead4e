"""Dropout whose rate is a hyperparameter: each image of a batch at a rate of its own.

In training mode, TunedDropout draws as the layer in whose place it stands, with the rate that the HyperNetwork hands
it; in eval mode it does nothing. Draws come from torch's default generator, as those of nn.Dropout.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hba.errors import SettingsError
from hba.hypernet.layers import Door

_DIMENSIONS_OF_MASK: Mapping[type[nn.Module], int | None] = {
    nn.Dropout: None,
    nn.Dropout1d: 2,
    nn.Dropout2d: 2,
    nn.Dropout3d: 2,
}
"""How many of the leading dimensions have a draw of their own: all of them, or images and channels."""


@dataclass(frozen=True)
class TunedRates:
    """columns: by the name of a dropout module, the column of its rate. decode: from lambda (..., n) to values."""

    columns: Mapping[str, int]
    decode: Callable[[Tensor], Tensor]


class TunedDropout(nn.Module):
    """In the place of a dropout module. name: that of the module in the network."""

    def __init__(self, layer: nn.Module, name: str, column: int, door: Door) -> None:
        super().__init__()
        if type(layer) not in _DIMENSIONS_OF_MASK:
            raise SettingsError(f"the rate of {name!r} cannot be tuned: a {type(layer).__name__} is no nn.Dropout")
        self.layer, self.name, self.column, self.door = layer, name, column, door

    def forward(self, x: Tensor) -> Tensor:
        """x (B, ...)."""
        if not self.training:
            return x
        values = self.door.read_values()
        if values.ndim == 2 and len(values) != len(x):
            raise SettingsError(
                f"the dropout {self.name!r} gets {len(x)} rows for {len(values)} images, so it cannot have a rate for "
                "each image; omit dropout from tune"
            )
        rate = values[..., self.column].to(x)
        n_dimensions = _DIMENSIONS_OF_MASK[type(self.layer)] or x.ndim
        shape = (*x.shape[:n_dimensions], *[1] * (x.ndim - n_dimensions))
        rate = rate.reshape(-1, *[1] * (x.ndim - 1))
        kept = torch.rand(shape, device=x.device, dtype=x.dtype) >= rate
        # A rate of 1 keeps nothing, so what it is divided by does not matter.
        return x * (kept / (1 - rate).clamp(min=torch.finfo(x.dtype).eps))

    @property
    def p(self) -> float:
        """A network that reads the rate uses it by itself, the same for all images."""
        raise SettingsError(
            f"the network reads the rate of the dropout {self.name!r} itself, so it cannot have one for each image; "
            "omit dropout from tune, or give another model"
        )

    def plain(self, values: Tensor) -> nn.Module:
        """The layer itself, with its rate of values (n,)."""
        self.layer.p = float(values[self.column])  # type: ignore[assignment]
        return self.layer
