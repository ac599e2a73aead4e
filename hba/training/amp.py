"""Automatic mixed precision, by the setting `fast`: layers compute in bfloat16, with channels last in memory.

Weights, their gradients and steps, the loss, and the statistics of BatchNorm stay in single precision. bfloat16 has the
range of single precision, so no loss has to be scaled.
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
"""Linux's names for instructions on bfloat16, of which a processor needs one."""


def enable_amp(network: nn.Module, input_shape: tuple[int, int, int]) -> None:
    """Store weights with channels last, and check that the network can run in mixed precision on inputs (C, H, W).

    Raises SettingsError if its own code wants another order in memory, or numbers of one precision.
    """
    for tensor in (*network.parameters(), *network.buffers()):
        # Only tensors of four axes have channels in the order of images.
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
        raise SettingsError(f"fast does not go with this network ({reason_of(error)}); omit it") from None


def amp_forward(network: nn.Module, images: Tensor) -> Tensor:
    """The network's logits for images (B, C, H, W), both in single precision; its layers compute in bfloat16."""
    with torch.autocast(images.device.type, torch.bfloat16):
        logits: Tensor = network(images.contiguous(memory_format=torch.channels_last))
    return logits.float()


def slow_note(device: torch.device) -> str | None:
    """A note if the hardware has no instructions for bfloat16; None if it has, or if that is unknown."""
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
