"""How many parameters the authors of a network count, where they do."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


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
