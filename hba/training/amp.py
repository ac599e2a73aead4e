"""Faster passes of a network, by the setting `fast`: its layers compute in bfloat16, with channels last in memory.

Weights, their gradients and steps, the loss, and the statistics of BatchNorm stay in single precision: it is PyTorch's
automatic mixed precision. bfloat16 has the range of single precision, so no loss has to be scaled.
"""

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor, nn

from hba.distributed.process_info import single_process
from hba.errors import SettingsError
from hba.utils.files import reason_of
from hba.utils.seeding import default_generators

CPU_FLAGS = ("avx512_bf16", "amx_bf16", "bf16")
"""Of which a processor has one, as Linux names them, that computes in bfloat16 by instructions of its own."""

P = ParamSpec("P")
T = TypeVar("T")

_in_full: list[None] = []
"""An item for each full_precision that the passes of now are in."""
_entered: list[contextlib.AbstractContextManager[Any]] = []
"""Of passes that are being made, the innermost last."""


def enable_amp(network: nn.Module) -> nn.Module:
    """Let a network make its passes so, but for those in full_precision; returns it.

    Names and values of its weights stay. It takes and gives tensors in single precision, as before.
    """
    for tensor in (*network.parameters(), *network.buffers()):
        # What has other numbers of axes has no channels, or an order of its own.
        if tensor.ndim == 4:
            tensor.data = tensor.data.to(memory_format=torch.channels_last)
    # Kept by copies, and unlike a module around it they change no weight's name.
    network.register_forward_pre_hook(_begin)
    network.register_forward_hook(_end, always_call=True)
    return network


def check_passes(network: nn.Module, shape: tuple[int, int, int]) -> None:
    """Try two black images of this shape (C, H, W) in a hastened network, or rather a copy, forward and back.

    SettingsError where it cannot: its own code wants another order in memory, or numbers of one precision.
    """
    tried = copy.deepcopy(network)
    device = next(tried.parameters()).device
    try:
        with default_generators(device), single_process(), whole_passes():
            for is_training in (False, True):
                tried.train(is_training)
                tried(torch.zeros(2, *shape, device=device)).sum().backward()
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        raise SettingsError(f"fast does not go with this network ({reason_of(error)}); omit it") from None


def disable_amp(network: nn.Module) -> nn.Module:
    """Let a network, or a copy of one, make its passes as PyTorch does again; returns it."""
    for hooks, own in ((network._forward_pre_hooks, _begin), (network._forward_hooks, _end)):
        for number in [number for number, hook in hooks.items() if hook is own]:
            del hooks[number]
            network._forward_hooks_always_called.pop(number, None)
    return network


@contextlib.contextmanager
def whole_passes() -> Iterator[None]:
    """Around passes of such networks: Ctrl-C in the middle of one leaves nothing in bfloat16 behind.

    PyTorch calls no hook for what is no Exception.
    """
    depth = len(_entered)
    try:
        yield
    finally:
        while len(_entered) > depth:
            _entered.pop().__exit__(None, None, None)


@contextlib.contextmanager
def full_precision() -> Iterator[None]:
    """Here all passes are made in single precision: of what is measured, and of small differences."""
    _in_full.append(None)
    try:
        yield
    finally:
        _in_full.pop()


def in_full_precision(function: Callable[P, T]) -> Callable[P, T]:
    """The function, inside of full_precision."""

    @functools.wraps(function)
    def inside(*arguments: P.args, **named: P.kwargs) -> T:
        with full_precision():
            return function(*arguments, **named)

    return inside


def slow_note(device: torch.device) -> str | None:
    """What to know where the hardware itself does not compute in bfloat16; None where it does, or nobody can tell."""
    if device.type != "cpu":
        is_fast = device.type != "cuda" or torch.cuda.get_device_capability(device) >= (8, 0)
    else:
        try:
            flags = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
        except OSError:
            return None
        is_fast = any(flag in flags for flag in CPU_FLAGS)
    if is_fast:
        return None
    return f"fast: this {device.type} has no instructions for bfloat16, and may be slower by it"


def _begin(network: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    (images, *further) = arguments
    pass_ = contextlib.nullcontext() if _in_full else torch.autocast(images.device.type, torch.bfloat16)
    pass_.__enter__()
    _entered.append(pass_)
    return images.contiguous(memory_format=torch.channels_last) if images.ndim == 4 else images, *further


def _end(network: nn.Module, arguments: tuple[Any, ...], output: Any) -> Any:
    _entered.pop().__exit__(None, None, None)
    return output.float() if isinstance(output, Tensor) else output
