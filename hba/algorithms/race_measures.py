"""Measures of a race on validation images: calibrated losses, and how well a network recognises moved images."""

import torch
from torch import Tensor, nn

from hba.algorithms.task import ImageTask
from hba.data.labels import is_multi_label
from hba.operations import Operation
from hba.training.criterion import losses_of
from hba.training.metrics import logits_of

TEMPERATURES = torch.logspace(-3, 3, 61, base=2.0)
"""Factors of logits that calibration tries."""


def validated(task: ImageTask, network: nn.Module, move: Operation | None = None) -> tuple[Tensor, Tensor]:
    """Logits (images, classes) and labels of all validation images, after the operation `move` if there is one."""

    def prepare(images: Tensor) -> Tensor:
        if move is not None:
            places = (torch.arange(len(images) * move.n_uniforms, device=images.device) % 3 + 0.5) / 3
            images = move(images, fill=task.fill, position=places.view(len(images), move.n_uniforms))
        return task.preprocessing.measure(images)

    return logits_of(network, task.data.val, prepare)


def doubts(logits: Tensor, labels: Tensor) -> Tensor:
    """1 minus the probability of the label, (images,); for several labels, the mean over classes."""
    if is_multi_label(labels):
        return (logits.sigmoid() - labels.float()).abs().mean(dim=1)
    return 1 - logits.softmax(dim=1).gather(1, labels[:, None])[:, 0]


def gaps(task: ImageTask, network: nn.Module) -> Tensor:
    """The share of what the network has learned that moving images by each symmetry of the space costs, and its
    standard error, (symmetries, 2).

    What it has learned is how much lower its mean doubt is than that of guessing by the shares of the classes. If it
    has learned nothing, the gaps are infinite.
    """
    logits, labels = validated(task, network)
    before = doubts(logits, labels)
    share = (labels.float() if is_multi_label(labels) else nn.functional.one_hot(labels).float()).mean(dim=0)
    guessing = (2 * share * (1 - share)).mean() if is_multi_label(labels) else 1 - share.square().sum()
    learned = (guessing - before.mean()).clamp(min=0)
    found = before.new_zeros(0, 2)
    for one in [operation for operation in task.space.operations if operation.stage == "symmetry"]:
        cost = (doubts(*validated(task, network, one)) - before) / learned
        found = torch.cat([found, torch.stack([cost.mean(), cost.std() / len(cost) ** 0.5])[None]])
    return found.nan_to_num(torch.inf, torch.inf, torch.inf)


def calibrated(logits: Tensor, labels: Tensor) -> Tensor:
    """Logits times the factor in TEMPERATURES that gives the lowest mean loss."""
    losses = torch.stack([losses_of(one * logits, labels).mean() for one in TEMPERATURES.to(logits)])
    return logits * TEMPERATURES.to(logits)[losses.argmin()]
