"""Types and constants of tensors."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

# Modules that only declare a constant are imported without torch, which takes seconds.
if TYPE_CHECKING:
    import torch
    from torch import Tensor

# Exported files contain the rest of this module.

PRECISION = "float32"
"""Of all that hba computes, by its name in torch."""

Make = TypeVar("Make", bound=Callable[..., Any])


@contextlib.contextmanager
def usual_types() -> Iterator[None]:
    """PRECISION and the CPU as PyTorch's defaults, and no autocast, whatever the caller
    has set; then as before.
    """
    import torch

    # torch.get_default_device takes several times as long, which counts for single
    # images.
    created = torch.empty(0)
    precision = getattr(torch, PRECISION)
    cast_on = [
        device_type
        for device_type in ("cpu", "cuda")
        if torch.is_autocast_enabled(device_type)
    ]
    if created.dtype == precision and created.device.type == "cpu" and not cast_on:
        yield
        return
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.device("cpu"))
        for device_type in cast_on:
            stack.enter_context(torch.autocast(device_type, enabled=False))
        stack.callback(torch.set_default_dtype, created.dtype)
        torch.set_default_dtype(precision)
        yield


def device_constant(make: Make) -> Make:
    """Cache the results of `make` by its arguments, which must be hashable. A compiled
    program has its own results.
    """
    cached: dict[tuple[Hashable, ...], Any] = {}

    @functools.wraps(make)
    def constant(*arguments: Hashable) -> Any:
        import torch

        # Checked first: a compiler that looked into the cache would trace the hashes of
        # all arguments in it.
        is_compiling = torch.compiler.is_compiling()
        if not is_compiling and arguments in cached:
            return cached[arguments]
        # A tensor that is made in inference mode stays an inference tensor.
        with torch.inference_mode(False):
            created = make(*arguments)
        # A tensor that a CUDA graph records has no content yet.
        is_capturing = (
            torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
        )
        if not (is_compiling or is_capturing):
            cached[arguments] = created
        return created

    return cast(Make, constant)


@device_constant
def whole_numbers(count: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """0, 1, ..., count - 1, shape (count,). Must not be changed in place."""
    import torch

    return torch.arange(count, dtype=dtype, device=device)
