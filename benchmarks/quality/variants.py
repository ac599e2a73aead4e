"""Rewards of images as in hba/algorithms/lookahead.py, and in other ways that may tell better what a policy is worth.

symbol      in the code                     meaning
w           network                         weights at one place of a training
v           directions[REWARD]              gradient of the validation loss with respect to w
r_i         rewards(batch)[REWARD]          derivative of the training loss of image i along v
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hba.algorithms.lambda_steps import validation_statistics
from hba.algorithms.lookahead import rewards_of, trained_parameters
from hba.algorithms.scores import AugmentedBatch

REWARD, BATCH, COSINE, GAP, AVERAGE = "reward", "batch", "cosine", "gap", "average"
VARIANTS: Mapping[str, str] = MappingProxyType(
    {
        REWARD: "as look-ahead has it: BatchNorm by running statistics",
        BATCH: "BatchNorm by the batch, of validation images and of those that are judged",
        COSINE: "divided by the size of the image's own gradient of the last layer",
        GAP: "less the derivative along the gradient of the training loss of images without augmentation",
        AVERAGE: "along the validation gradient at an exponential average of the weights",
    }
)
SMALLEST = 1e-3
"""Added to the size of an image's gradient: that of an image which is learnt by heart is nearly 0."""

Direction = Mapping[str, Tensor]
"""By name, of the parameters that are trained."""
Batches = Iterable[tuple[Tensor, Tensor]]
"""Images as the network takes them (B, C, H, W), and labels (B,)."""


@dataclass(frozen=True)
class Judge:
    """Rewards by every variant, at one place of a training. directions: by variant, but for the cosine, which has that
    of the reward. The network is in eval mode.
    """

    network: nn.Module
    directions: Mapping[str, Direction]

    @staticmethod
    def of(network: nn.Module, averaged: nn.Module, val: Batches, train: Batches) -> "Judge":
        """averaged: a network of the same kind at an average of the weights. train: without augmentation. val and train
        are gone through more than once.
        """
        network.eval()
        averaged.eval()
        reward, of_training = gradient(network, val), gradient(network, train)
        with validation_statistics(network, BATCH):
            by_batch = gradient(network, val)
        directions = {
            REWARD: reward,
            BATCH: by_batch,
            GAP: {name: reward[name] - of_training[name] for name in reward},
            AVERAGE: gradient(averaged, val),
        }
        return Judge(network, directions)

    def rewards(self, batch: AugmentedBatch) -> dict[str, Tensor]:
        """By variant, of each image (B,), in the order of VARIANTS. A batch is of one policy."""
        found = {}
        for name, direction in self.directions.items():
            with validation_statistics(self.network, BATCH if name == BATCH else "running"):
                found[name] = rewards_of(self.network, batch, direction)
        found[COSINE] = found[REWARD] / (last_layer_size(self.network, batch.images, batch.labels) + SMALLEST)
        return {name: found[name] for name in VARIANTS}


def gradient(network: nn.Module, batches: Batches) -> dict[str, Tensor]:
    """Of the mean cross entropy of all images, by name of the parameters that are trained."""
    parameters = trained_parameters(network)
    sums = [torch.zeros_like(parameter) for parameter in parameters.values()]
    n_images = 0
    for images, labels in batches:
        loss = F.cross_entropy(network(images), labels, reduction="sum")
        parts = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True, materialize_grads=True)
        sums = [total + part for total, part in zip(sums, parts, strict=True)]
        n_images += len(labels)
    return {name: total / n_images for name, total in zip(parameters, sums, strict=True)}


@torch.no_grad()
def last_layer_size(network: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """Euclidean norm (B,) of the gradient of each image's cross entropy with respect to weights and bias of the last
    linear layer: with features h and probabilities p, that of (p - y) times that of (h, 1).
    """
    last = [layer for layer in network.modules() if isinstance(layer, nn.Linear)][-1]
    features: list[Tensor] = []
    hook = last.register_forward_pre_hook(lambda _, given: features.append(given[0]))
    try:
        errors = network(images).softmax(dim=1)
    finally:
        hook.remove()
    errors[torch.arange(len(labels), device=labels.device), labels] -= 1
    return errors.norm(dim=1) * (features[0].square().sum(dim=1) + 1).sqrt()
