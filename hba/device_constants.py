"""Tensors that never change and need to travel to each device only once."""

import functools
from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

Make = TypeVar("Make", bound=Callable[..., Any])


def device_constant(make: Make) -> Make:
    """Keep what `make` returns for its arguments, which must be hashable. A compiled program makes its own."""
    kept = functools.lru_cache(maxsize=64)(make)

    @functools.wraps(make)
    def constant(*arguments: Hashable) -> Any:
        return make(*arguments) if torch.compiler.is_compiling() else kept(*arguments)

    return cast(Make, constant)


@device_constant
def whole_numbers(count: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """0, 1, ..., count - 1, shape (count,). Must not be changed in place."""
    return torch.arange(count, dtype=dtype, device=device)
