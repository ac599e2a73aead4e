"""Automatic mixed precision (the setting `fast`): layers compute in bfloat16, in the memory format channels_last.

Weights, gradients, optimizer steps, the loss and the statistics of BatchNorm stay in float32. bfloat16 has the range of
float32, so the loss need not be scaled.
"""

import copy
from pathlib import Path

import torch
from torch import Tensor, nn

from hba.distributed.process_info import single_process
from hba.errors import SettingsError
from hba.utils.files import reason_of
from hba.utils.seeding import default_generators

CPU_FLAGS = ("avx512_bf16", "amx_bf16", "bf16")
"""Linux's names of bfloat16 instructions; a processor needs one of them."""


def enable_amp(network: nn.Module, input_shape: tuple[int, int, int]) -> None:
    """Store weights as channels_last, and try a forward and backward pass in mixed precision on inputs (C, H, W).

    Raises SettingsError if that fails.
    """
    for tensor in (*network.parameters(), *network.buffers()):
        if tensor.ndim == 4:
            tensor.data = tensor.data.to(memory_format=torch.channels_last)
    tried = copy.deepcopy(network)
    device = next(tried.parameters()).device
    try:
        with default_generators(device), single_process():
            for is_training in (False, True):
                tried.train(is_training)
                amp_forward(tried, torch.zeros(2, *input_shape, device=device)).sum().backward()
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        raise SettingsError(f"fast does not work with this network ({reason_of(error)}); omit it") from None


def amp_forward(network: nn.Module, images: Tensor) -> Tensor:
    """Logits (B, classes) in float32 for images (B, C, H, W); the layers compute in bfloat16."""
    with torch.autocast(images.device.type, torch.bfloat16):
        logits: Tensor = network(images.contiguous(memory_format=torch.channels_last))
    return logits.float()


def slow_note(device: torch.device) -> str | None:
    """A sentence if the hardware lacks bfloat16 instructions; None if it has them, or if that is unknown."""
    if device.type != "cpu":
        is_fast = device.type != "cuda" or torch.cuda.get_device_capability(device) >= (8, 0)
    else:
        try:
            flags = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
        except OSError:
            return None
        is_fast = any(flag in flags for flag in CPU_FLAGS)
    return None if is_fast else f"fast may slow down this {device.type}, which has no bfloat16 instructions"
