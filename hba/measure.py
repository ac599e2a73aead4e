"""Loss and error of a network on a whole split."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hba.data.batches import as_floats
from hba.data.images import LabelledImages

MEASURE_BATCH_SIZE = 500

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Measured:
    """Mean cross entropy in nats, and the share of wrong answers in per cent."""

    loss: float
    error_percent: float


@torch.no_grad()
def totals(predict: Function, data: LabelledImages, prepare: Function) -> Tensor:
    """Sum of the cross entropy in nats, and number of wrong answers: a tensor (2,) on the device.

    predict gives logits for what prepare makes of images in [0, 1].
    """
    sums = torch.zeros(2, device=data.labels.device)
    for start in range(0, len(data), MEASURE_BATCH_SIZE):
        labels = data.labels[start : start + MEASURE_BATCH_SIZE]
        logits = predict(prepare(as_floats(data.images[start : start + MEASURE_BATCH_SIZE])))
        loss = F.cross_entropy(logits, labels, reduction="sum")
        sums += torch.stack([loss, (logits.argmax(1) != labels).sum().to(loss)])
    return sums


def measure(network: nn.Module, predict: Function, data: LabelledImages, prepare: Function) -> Measured:
    """Mean loss and error; the network runs in eval mode and gets its mode back.

    The host waits for the device once, at the end.
    """
    was_training = network.training
    network.eval()
    loss, wrong = totals(predict, data, prepare).tolist()
    network.train(was_training)
    return Measured(loss / len(data), 100 * wrong / len(data))
