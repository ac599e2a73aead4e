"""Tensors that never change and need to travel to each device only once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Make = TypeVar("Make", bound=Callable[..., Any])


def device_constant(make: Make) -> Make:
    """Keep what `make` returns for its arguments, which must be hashable. A compiled program makes its own."""
    kept: dict[tuple[Hashable, ...], Any] = {}

    @functools.wraps(make)
    def constant(*arguments: Hashable) -> Any:
        # Modules that only declare a constant are imported without torch.
        import torch

        # Asked first: a compiler that looks into `kept` traces the hashes of all that other callers ever asked for.
        is_compiling = torch.compiler.is_compiling()
        if not is_compiling and arguments in kept:
            return kept[arguments]
        # What is made inside another mode belongs to it; what a CUDA graph records has no content yet.
        with torch.inference_mode(False):
            made = make(*arguments)
        if not (is_compiling or _is_capturing()):
            kept[arguments] = made
        return made

    return cast(Make, constant)


def _is_capturing() -> bool:
    import torch

    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


@device_constant
def whole_numbers(count: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """0, 1, ..., count - 1, shape (count,). Must not be changed in place."""
    import torch

    return torch.arange(count, dtype=dtype, device=device)
