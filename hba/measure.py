"""Loss and error of a network on a whole split."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hba.data.batches import Standardize, as_floats
from hba.data.images import LabelledImages

MEASURE_BATCH_SIZE = 500


@dataclass(frozen=True)
class Measured:
    """Mean cross entropy in nats, and the share of wrong answers in per cent."""

    loss: float
    error_percent: float


@torch.no_grad()
def measure(
    network: nn.Module, predict: Callable[[Tensor], Tensor], data: LabelledImages, standardize: Standardize
) -> Measured:
    """predict gives the network's logits for standardised images; the network runs in eval mode and gets its mode back.

    The host waits for the device once, at the end.
    """
    was_training = network.training
    network.eval()
    loss = torch.zeros((), device=data.images.device)
    wrong = torch.zeros((), device=data.images.device)
    for start in range(0, len(data), MEASURE_BATCH_SIZE):
        labels = data.labels[start : start + MEASURE_BATCH_SIZE]
        logits = predict(standardize(as_floats(data.images[start : start + MEASURE_BATCH_SIZE])))
        loss += F.cross_entropy(logits, labels, reduction="sum")
        wrong += (logits.argmax(1) != labels).sum()
    network.train(was_training)
    loss_sum, wrong_sum = torch.stack([loss, wrong]).tolist()
    return Measured(loss_sum / len(data), 100 * wrong_sum / len(data))
