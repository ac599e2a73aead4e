"""What there is to know of a named network without running it: sizes, shapes, and the strategies that suit it."""

from dataclasses import dataclass

import torch

from hba.hypernet.sharing import working_strategies
from hba.models import find_model
from hba.models.published import PUBLISHED, Published

IMAGENET_NETWORKS = ("resnet-18", "resnet-50")
"""For 224x224 and counted at 1000 classes; all others for 32x32 and counted at 10."""


@dataclass(frozen=True)
class ModelFacts:
    name: str
    n_classes: int
    parameters: int
    input_shape: tuple[int, ...]
    """Of a batch of 2."""
    output_shape: tuple[int, ...]
    sharing: tuple[str, ...]
    """The weight sharing strategies that find layers to replace, all of which can be."""
    published: Published | None


def model_facts(name: str) -> ModelFacts:
    """Facts of the network of that name; its weights are never made."""
    n_classes, size = (1000, 224) if name in IMAGENET_NETWORKS else (10, 32)
    with torch.device("meta"), torch.no_grad():
        network = find_model(name)(n_classes).eval()
        images = torch.empty(2, 3, size, size)
        return ModelFacts(
            name=name,
            n_classes=n_classes,
            parameters=sum(parameter.numel() for parameter in network.parameters()),
            input_shape=tuple(images.shape),
            output_shape=tuple(network(images).shape),
            sharing=working_strategies(network),
            published=PUBLISHED.get(name),
        )
