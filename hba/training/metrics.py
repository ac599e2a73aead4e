"""Loss, error and confusion matrix of a network on a whole split."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from hba.data.images import Images
from hba.data.loader import as_floats
from hba.tasks import task_of
from hba.utils.graphs import EAGER, StepGraphs

MEASURE_BATCH_SIZE = 500
PIXELS_PER_BATCH = 500 * 64**2
"""Limit of a batch of larger images, which still has at least FEWEST_OF_BATCH images.
"""
FEWEST_OF_BATCH = 100
MOST_LOGITS = 250_000_000
"""Largest number of logits of masks that are kept at once, 1 GB."""

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Confusion:
    """A network's answers on a split.

    Raises ValueError for labels that are not a class, and counts below 1.
    """

    n_classes: int
    counts: Mapping[int, Mapping[int, int]] = field(repr=False)
    """Number of images by class and then by answer, both as labels, above 0."""

    def __post_init__(self) -> None:
        labels = {
            *self.counts,
            *(answer for row in self.counts.values() for answer in row),
        }
        images = [count for row in self.counts.values() for count in row.values()]
        if (
            not labels
            or min(labels) < 0
            or max(labels) >= self.n_classes
            or min(images, default=0) < 1
        ):
            last = self.n_classes - 1
            raise ValueError(
                f"a confusion matrix must have labels of 0 to {last}, and counts of 1"
                " or more"
            )

    @staticmethod
    def of(matrix: Tensor) -> "Confusion":
        """The confusion of a matrix.

        Args:
            matrix: Number of images by label and answer (K, K).
        """
        rows = [
            {answer: count for answer, count in enumerate(row) if count}
            for row in matrix.tolist()
        ]
        return Confusion(
            len(rows), {label: row for label, row in enumerate(rows) if row}
        )

    def matrix(self) -> np.ndarray:
        """The matrix int64 (K, K) of numbers of images.

        A row is the class of the images, a column the class that they were classified
        as.
        """
        matrix = np.zeros((self.n_classes, self.n_classes), dtype=np.int64)
        for label, row in self.counts.items():
            matrix[label, [*row]] = [*row.values()]
        return matrix

    @property
    def balanced_accuracy_percent(self) -> float:
        """Mean recall in per cent over the classes that have images."""
        matrix = self.matrix()
        images = matrix.sum(1)
        present = images > 0
        return float(100 * (matrix.diagonal()[present] / images[present]).mean())


@dataclass(frozen=True)
class Measured:
    """Mean loss in nats and error in per cent, as the task defines them."""

    loss: float
    error_percent: float
    confusion: Confusion | None = None
    """Only if a confusion matrix was requested."""
    image_errors: Tensor | None = field(default=None, repr=False, compare=False)
    """The part of each image (N,) in the error, on the CPU, bool if images are answered
    rightly or wrongly; None if there is no such part.
    """
    class_error_percents: tuple[float | None, ...] | None = None
    """The error of each class, None without any image of it; None if the error is not a
    mean over classes.
    """


def measure_batch_size(image_size: int, *, has_masks: bool = False) -> int:
    """Number of images that are measured together.

    Args:
        image_size: Their side in pixels.
        has_masks: Whether outputs are as large as images, so that few fit into memory.
    """
    fewest = 1 if has_masks else FEWEST_OF_BATCH
    return min(MEASURE_BATCH_SIZE, max(fewest, PIXELS_PER_BATCH // image_size**2))


@torch.no_grad()
def logits_of(
    network: nn.Module,
    data: Images,
    prepare: Function,
    places: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Logits of images by the network in eval mode, as in `measure`. If they would
    be more than MOST_LOGITS, they and their labels are thinned.

    Args:
        network: The network.
        data: The images.
        prepare: Takes images in [0, 1].
        places: Indices of the images; None for all.

    Returns:
        Logits (N, classes), float32, and labels.
    """
    was_training = network.training
    network.eval()
    task = task_of(data.labels)
    batch_size = measure_batch_size(data.image_size, has_masks=task.has_masks)
    n_images = len(data) if places is None else len(places)
    if places is None:
        batches = data.once(batch_size)
    else:
        batches = data.read(places.to(data.device).split(batch_size))
    outputs = []
    for images, labels in batches:
        logits = network(prepare(as_floats(images))).float()
        if n_images * logits[0].numel() > MOST_LOGITS:
            logits, labels = task.thinned(logits).clone(), task.thinned(labels)
        outputs.append((logits, labels))
    network.train(was_training)
    all_logits, all_labels = map(torch.cat, zip(*outputs, strict=True))
    return all_logits, all_labels


@torch.no_grad()
def totals(
    predict: Function,
    data: Images,
    prepare: Function,
    confusion: Tensor | None = None,
    graphs: StepGraphs = EAGER,
) -> tuple[Tensor, Tensor]:
    """The mean loss over a split, and what its error depends on.

    Args:
        predict: Maps the output of prepare to logits.
        data: The images.
        prepare: Takes images in [0, 1].
        confusion: int64 (K, K) of zeros on the device, to which images are added by
            label and answer.
        graphs: Runs the steps.

    Returns:
        The mean loss () in nats, and the statistics (N, ...) of the task, on the
            device.
    """
    loss_sum = torch.zeros((), device=data.device)
    task = task_of(data.labels)
    statistics: list[Tensor] = []
    batch_size = measure_batch_size(data.image_size, has_masks=task.has_masks)
    for images, labels in data.once(batch_size):
        logits = graphs.run(
            "measure", lambda images: predict(prepare(as_floats(images))), images
        )
        loss_sum += task.loss_sum(logits, labels)
        statistics.append(task.statistics(logits, labels))
        if confusion is not None:
            # Unlike bincount, index_add_ does not synchronize with the device.
            confusion.view(-1).index_add_(
                0,
                labels * len(confusion) + logits.argmax(1),
                torch.ones_like(labels),
            )
    return loss_sum / len(data), torch.cat(statistics)


def measure(
    network: nn.Module,
    data: Images,
    prepare: Function,
    n_classes: int | None = None,
    graphs: StepGraphs = EAGER,
) -> Measured:
    """Mean loss and error of the network in eval mode; its own mode is restored.

    The host waits at the end.

    Args:
        network: The network.
        data: The images.
        prepare: Maps images in [0, 1] to the network's input.
        n_classes: Also find the confusion matrix of this many classes.
        graphs: Runs the steps.
    """
    was_training = network.training
    network.eval()
    confusion = None
    if n_classes is not None:
        confusion = torch.zeros(
            n_classes, n_classes, dtype=torch.int64, device=data.device
        )
    loss, statistics = totals(network, data, prepare, confusion, graphs)
    network.train(was_training)
    task = task_of(data.labels)
    image_errors = task.image_errors(statistics)
    if image_errors is None:
        error_percent = 100 * float(task.error_of(statistics))
    else:
        image_errors = image_errors.cpu()
        # Of many images, a mean in single precision is not exact.
        error_percent = 100 * float(image_errors.double().sum()) / len(data)
    class_errors = task.class_errors(statistics)
    percents = None
    if class_errors is not None:
        percents = tuple(
            None if math.isnan(error) else 100 * error
            for error in class_errors.tolist()
        )
    return Measured(
        float(loss),
        error_percent,
        None if confusion is None else Confusion.of(confusion.cpu()),
        image_errors,
        percents,
    )
