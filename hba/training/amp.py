"""Automatic mixed precision (the setting `fast`): layers compute in bfloat16, in the memory format channels_last.

Weights, gradients, optimizer steps, the loss and the statistics of BatchNorm stay in float32. bfloat16 has the range of
float32, so the loss need not be scaled.
"""

import copy
from functools import partial

import torch
from torch import Tensor, nn

from hba.errors import SettingsError
from hba.training.custom_network import try_passes
from hba.utils.files import reason_of


def enable_amp(network: nn.Module, input_shape: tuple[int, int, int]) -> None:
    """Store weights as channels_last, and try a forward and backward pass in mixed precision on inputs (C, H, W).

    Raises SettingsError if that fails.
    """
    for tensor in (*network.parameters(), *network.buffers()):
        if tensor.ndim == 4:
            tensor.data = tensor.data.to(memory_format=torch.channels_last)
    tried = copy.deepcopy(network)
    try:
        try_passes(tried, partial(amp_forward, tried), input_shape)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        raise SettingsError(f"fast does not work with this network ({reason_of(error)}); omit it") from None


def amp_forward(network: nn.Module, images: Tensor) -> Tensor:
    """Logits (B, classes) in float32 for images (B, C, H, W); the layers compute in bfloat16."""
    with torch.autocast(images.device.type, torch.bfloat16):
        logits: Tensor = network(images.contiguous(memory_format=torch.channels_last))
    return logits.float()
