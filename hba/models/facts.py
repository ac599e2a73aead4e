"""What there is to know of a named network without running it: sizes, shapes, and the strategies that suit it."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import torch

from hba.hypernet.sharing import working_strategies
from hba.models import find_model

IMAGENET_NETWORKS = ("resnet-18", "resnet-50")
"""For 224x224 and counted at 1000 classes; all others for 32x32 and counted at 10."""


class Published(NamedTuple):
    millions: float
    source: str


PUBLISHED: Mapping[str, Published] = MappingProxyType(
    {
        "wrn-40-2": Published(2.2, "Zagoruyko and Komodakis 2016"),
        "wrn-28-10": Published(36.5, "Zagoruyko and Komodakis 2016"),
        "resnet-18": Published(11.7, "torchvision"),
        "resnet-50": Published(25.6, "torchvision"),
        "shake-shake-26-2x32d": Published(2.9, "Gastaldi 2017"),
        "shake-shake-26-2x96d": Published(26.2, "Gastaldi 2017"),
        "pyramidnet-272-200": Published(26.0, "Han et al. 2017"),
        "alexnet-stn": Published(23.3, "Bae and Grosse's code"),
    }
)
"""Name to millions of parameters, to one decimal: 1000 classes for torchvision's, 10 for the others."""


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
