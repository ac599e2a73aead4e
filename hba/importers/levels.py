"""What the operations and levels of Fast AutoAugment and DADA mean, in hba's operations and units.

A level L is in [0, 1]. Of operations that move pixels, it reaches from one side to the other, and the side is drawn
anew for every image: so |2 L - 1| says how far. A higher level inverts less in Solarize and keeps more in Posterize.
Sides in pixels are of images of 32 pixels.

Ref: github.com/kakaobrain/fast-autoaugment, FastAutoAugment/augmentations.py (augment_list, apply_augment), which DADA
(github.com/VDIGPKU/DADA) uses too.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from hba.policy.spaces import PBA_SIDE_PIXELS


class Meaning(NamedTuple):
    """An operation of hba, and its magnitude by level; None where it has none."""

    operation: str
    magnitude: Callable[[float], float] | None = None


def _to_both_sides(farthest: float) -> Callable[[float], float]:
    return lambda level: farthest * abs(2 * level - 1)


def _up_to(highest: float) -> Callable[[float], float]:
    return lambda level: highest * level


def _factor(level: float) -> float:
    return 0.1 + 1.8 * level


def _bits(level: float) -> float:
    return float(int(4 + 4 * level))


def _few_bits(level: float) -> float:
    """hba keeps one bit at least."""
    return float(max(1, int(4 * level)))


LEVELS: Mapping[str, Meaning] = MappingProxyType(
    {
        "ShearX": Meaning("ShearX", _to_both_sides(0.3)),
        "ShearY": Meaning("ShearY", _to_both_sides(0.3)),
        "TranslateX": Meaning("TranslateX", _to_both_sides(0.45)),
        "TranslateY": Meaning("TranslateY", _to_both_sides(0.45)),
        "Rotate": Meaning("Rotate", _to_both_sides(30.0)),
        "AutoContrast": Meaning("AutoContrast"),
        "Invert": Meaning("Invert"),
        "Equalize": Meaning("Equalize"),
        "Solarize": Meaning("Solarize", _up_to(256.0)),
        "Posterize": Meaning("Posterize", _bits),
        "Contrast": Meaning("Contrast", _factor),
        "Color": Meaning("Color", _factor),
        "Brightness": Meaning("Brightness", _factor),
        "Sharpness": Meaning("Sharpness", _factor),
        "Cutout": Meaning("Cutout", _up_to(0.2)),
        "CutoutAbs": Meaning("Cutout", _up_to(20 / PBA_SIDE_PIXELS)),
        "Posterize2": Meaning("Posterize", _few_bits),
        "TranslateXAbs": Meaning("TranslateX", _up_to(10 / PBA_SIDE_PIXELS)),
        "TranslateYAbs": Meaning("TranslateY", _up_to(10 / PBA_SIDE_PIXELS)),
    }
)
"""By the name there."""
