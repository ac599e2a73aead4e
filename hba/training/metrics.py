"""Loss, error and confusion matrix of a network on a whole split."""

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
"""Limit of a batch of larger images, which still has at least 100 images."""

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
    wrong: Tensor | None = field(default=None, repr=False, compare=False)
    """Only if a confusion matrix was requested: bool (N,) on the CPU, which images were
    classified wrongly.
    """


def measure_batch_size(image_size: int) -> int:
    """Number of images that are measured together.

    Args:
        image_size: Their side in pixels.
    """
    return min(MEASURE_BATCH_SIZE, max(100, PIXELS_PER_BATCH // image_size**2))


@torch.no_grad()
def logits_of(
    network: nn.Module,
    data: Images,
    prepare: Function,
    places: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Logits of images by the network in eval mode, as in `measure`.

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
    batch_size = measure_batch_size(data.image_size)
    if places is None:
        batches = data.once(batch_size)
    else:
        batches = data.read(places.to(data.device).split(batch_size))
    outputs = [
        (network(prepare(as_floats(images))), labels) for images, labels in batches
    ]
    network.train(was_training)
    logits, labels = map(torch.cat, zip(*outputs, strict=True))
    return logits.float(), labels


@torch.no_grad()
def totals(
    predict: Function,
    data: Images,
    prepare: Function,
    confusion: Tensor | None = None,
    graphs: StepGraphs = EAGER,
) -> Tensor:
    """Sums of the loss and the errors over a split, and the number of images.

    Args:
        predict: Maps the output of prepare to logits.
        data: The images.
        prepare: Takes images in [0, 1].
        confusion: int64 (K, K) of zeros on the device, to which images are added by
            label and answer.
        graphs: Runs the steps.

    Returns:
        A tensor (3,) on the device: sum of the loss in nats, share of errors times
            number of images, number of images.
    """
    sums = torch.zeros(3, device=data.device)
    task = task_of(data.labels)
    # An error that is no mean over images cannot be summed over batches.
    answers: list[tuple[Tensor, Tensor]] = []
    for images, labels in data.once(measure_batch_size(data.image_size)):
        logits = graphs.run(
            "measure", lambda images: predict(prepare(as_floats(images))), images
        )
        loss = task.loss_sum(logits, labels)
        wrong = torch.zeros_like(loss)
        if task.error_is_mean:
            wrong = task.wrong(logits, labels).sum().to(loss)
        else:
            # The next batch may overwrite them.
            answers.append((logits.clone(), labels))
        if confusion is not None:
            # Unlike bincount, index_add_ does not synchronize with the device.
            confusion.view(-1).index_add_(
                0,
                labels * len(confusion) + logits.argmax(1),
                torch.ones_like(labels),
            )
        sums += torch.stack([loss, wrong, torch.full_like(loss, len(labels))])
    if answers:
        logits, labels = map(torch.cat, zip(*answers, strict=True))
        sums[1] = task.error_share(logits, labels) * sums[2]
    return sums


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
        n_classes: Also find the confusion matrix of this many classes, and the wrong
            answers.
        graphs: Runs the steps.
    """
    answers: list[Tensor] = []

    def predict(images: Tensor) -> Tensor:
        logits: Tensor = network(images)
        answers.append(logits.argmax(1))
        return logits

    was_training = network.training
    network.eval()
    counts = (
        None
        if n_classes is None
        else torch.zeros(n_classes, n_classes, dtype=torch.int64, device=data.device)
    )
    loss, wrong, count = totals(
        network if n_classes is None else predict, data, prepare, counts, graphs
    ).tolist()
    network.train(was_training)
    if counts is None:
        return Measured(loss / count, 100 * wrong / count)
    which = (torch.cat(answers) != data.labels).cpu()
    return Measured(
        loss / count, 100 * wrong / count, Confusion.of(counts.cpu()), which
    )
