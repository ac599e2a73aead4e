"""Loss and error of a network on a whole split."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hba.data.batches import as_floats
from hba.data.images import ALL, Measurable
from hba.data.labels import is_multi_label
from hba.distributed.collectives import total
from hba.distributed.process_info import rank, single_process, size
from hba.errors import DataError
from hba.training.amp import in_full_precision
from hba.training.confusion import Confusion
from hba.training.criterion import error_share, loss_sum_of

MEASURE_BATCH_SIZE = 500
PIXELS_PER_BATCH = 500 * 64**2
"""Larger images come in smaller batches, but not in less than 100."""

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Measured:
    """Mean loss in nats, and the error in per cent, as criterion.py defines both. confusion: where it was asked for."""

    loss: float
    error_percent: float
    confusion: Confusion | None = None


@torch.no_grad()
@in_full_precision
def totals(predict: Function, data: Measurable, prepare: Function, confusion: Tensor | None = None) -> Tensor:
    """Sum of the loss in nats, share of error times number of images, number of images: a tensor (3,) on the device.

    predict gives logits for what prepare makes of images in [0, 1]. Images that cannot be read do not count.
    confusion: int64 (K, K) on the device, to which the images are added by label and answer; zeros before. Several
    processes take every so many-th batch each, and all get the sums.
    """
    sums = torch.zeros(3, device=data.device)
    # An average precision is of the order of all images: no sum over batches.
    answers: list[tuple[Tensor, Tensor]] = []
    with contextlib.closing(data.once(_batch_size(data.image_size), _share(data))) as batches:
        for images, labels in batches:
            with single_process():
                # The others measure other batches.
                logits = predict(prepare(as_floats(images)))
            loss = loss_sum_of(logits, labels)
            if is_multi_label(labels):
                answers.append((logits, labels))
                wrong = torch.zeros_like(loss)
            else:
                answer = logits.argmax(1)
                wrong = (answer != labels).sum().to(loss)
                if confusion is not None:
                    # Unlike bincount, it does not wait for the device to know the highest number.
                    confusion.view(-1).index_add_(0, labels * len(confusion) + answer, torch.ones_like(labels))
            sums += torch.stack([loss, wrong, torch.full_like(loss, len(labels))])
    if answers:
        logits, labels = map(torch.cat, zip(*answers, strict=True))
        sums[1] = error_share(logits, labels) * sums[2]
        return sums
    if confusion is not None:
        confusion.copy_(total(confusion))
    return total(sums)


def _share(data: Measurable) -> slice:
    """Of the batches, those of this process. An average precision is of all answers, so each needs them all."""
    return ALL if size() == 1 or is_multi_label(data.labels) else slice(rank(), None, size())


def _batch_size(image_size: int) -> int:
    return min(MEASURE_BATCH_SIZE, max(100, PIXELS_PER_BATCH // image_size**2))


def measure(network: nn.Module, data: Measurable, prepare: Function, n_classes: int | None = None) -> Measured:
    """Mean loss and error; the network runs in eval mode and returns to the mode it was in.

    n_classes: asks for the confusion matrix of so many classes too. The host waits for the device at the end only.
    """
    was_training = network.training
    network.eval()
    counts = None if n_classes is None else torch.zeros(n_classes, n_classes, dtype=torch.int64, device=data.device)
    loss, wrong, count = totals(network, data, prepare, counts).tolist()
    network.train(was_training)
    if not count:
        raise DataError(f"none of {len(data)} images could be read")
    return Measured(loss / count, 100 * wrong / count, None if counts is None else Confusion.of(counts.cpu()))
