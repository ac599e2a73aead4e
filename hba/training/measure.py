"""Loss and error of a network on a whole split."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hba.data.batches import as_floats
from hba.data.images import Measurable
from hba.data.labels import is_multi_label
from hba.training.criterion import error_share, loss_sum_of

MEASURE_BATCH_SIZE = 500
PIXELS_PER_BATCH = 500 * 64**2
"""Larger images come in smaller batches, but not in less than 100."""

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Measured:
    """Mean loss in nats, and the error in per cent, as criterion.py defines both."""

    loss: float
    error_percent: float


@torch.no_grad()
def totals(predict: Function, data: Measurable, prepare: Function) -> Tensor:
    """Sum of the loss in nats, share of error times number of images, number of images: a tensor (3,) on the device.

    predict gives logits for what prepare makes of images in [0, 1]. Images that cannot be read do not count.
    """
    sums = torch.zeros(3, device=data.device)
    # An average precision is of the order of all images: no sum over batches.
    answers: list[tuple[Tensor, Tensor]] = []
    with contextlib.closing(data.once(_batch_size(data.image_size))) as batches:
        for images, labels in batches:
            logits = predict(prepare(as_floats(images)))
            loss = loss_sum_of(logits, labels)
            if is_multi_label(labels):
                answers.append((logits, labels))
                wrong = torch.zeros_like(loss)
            else:
                wrong = (logits.argmax(1) != labels).sum().to(loss)
            sums += torch.stack([loss, wrong, torch.full_like(loss, len(labels))])
    if answers:
        logits, labels = map(torch.cat, zip(*answers, strict=True))
        sums[1] = error_share(logits, labels) * sums[2]
    return sums


def _batch_size(image_size: int) -> int:
    return min(MEASURE_BATCH_SIZE, max(100, PIXELS_PER_BATCH // image_size**2))


def measure(network: nn.Module, data: Measurable, prepare: Function) -> Measured:
    """Mean loss and error; the network runs in eval mode and returns to the mode it was in.

    The host waits for the device once, at the end.
    """
    was_training = network.training
    network.eval()
    loss, wrong, count = totals(network, data, prepare).tolist()
    network.train(was_training)
    return Measured(loss / count, 100 * wrong / count)
