"""Automatic mixed precision (the setting `fast`): layers compute in bfloat16, in the
memory format channels_last.

Weights, gradients, optimizer steps, the loss and the statistics of BatchNorm stay in
float32. bfloat16 has the range of float32, so the loss need not be scaled.
"""

import torch
from torch import Tensor, nn

from hba.errors import SettingsError
from hba.utils.files import reason_of


def enable_amp(network: nn.Module) -> None:
    """Store weights as channels_last."""
    for tensor in (*network.parameters(), *network.buffers()):
        if tensor.ndim == 4:
            tensor.data = tensor.data.to(memory_format=torch.channels_last)


def amp_forward(network: nn.Module, images: Tensor) -> Tensor:
    """Logits (B, classes) in float32 for images (B, C, H, W).

    Raises:
        SettingsError: For a network that fails in bfloat16.
    """
    try:
        with torch.autocast(images.device.type, torch.bfloat16):
            logits: Tensor = network(
                images.contiguous(memory_format=torch.channels_last)
            )
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise SettingsError(
            f"fast does not work with this network ({reason_of(error)}); omit it"
        ) from None
    return logits.float()
