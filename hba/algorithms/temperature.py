"""The temperature that suits logits best, which takes over-confidence out of a validation loss."""

import torch
from torch import Tensor

from hba.data.labels import is_multi_label
from hba.training.criterion import losses_of
from hba.utils.devices import device_constant


@device_constant
def _temperatures(device: torch.device) -> Tensor:
    return torch.logspace(-1, 2, 121, device=device)


def best_temperature(logits: Tensor, labels: Tensor) -> Tensor:
    """The temperature in [0.1, 100] that minimises the loss of logits / temperature; a scalar tensor.

    Tries a fixed logarithmic scale, 6 % from one to the next, so nothing has to leave the device.
    """
    temperatures = _temperatures(logits.device)
    scaled = logits / temperatures[:, None, None]
    if is_multi_label(labels):
        losses = losses_of(scaled.flatten(0, 1), labels.repeat(len(temperatures), 1)).view(len(temperatures), -1)
    else:
        losses = -scaled.log_softmax(dim=2)[:, torch.arange(len(labels), device=labels.device), labels]
    # Indexing by a scalar tensor would read it on the host.
    return temperatures.gather(0, losses.mean(dim=1).argmin(keepdim=True))[0]
