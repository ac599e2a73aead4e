"""Policies as AutoAlbument writes them."""

from typing import Any

OLD = "albumentations.augmentations.transforms."


def leaf(name: str, p: float, **arguments: Any) -> dict[str, Any]:
    return {"__class_fullname__": OLD + name, "always_apply": False, "p": p, **arguments}


def moved(p: float, **limits: float) -> dict[str, Any]:
    """A ShiftScaleRotate as AutoAlbument writes it."""
    none = {"shift_limit_x": 0, "shift_limit_y": 0, "scale_limit": 0.0, "rotate_limit": 0}
    return leaf("ShiftScaleRotate", p, **{name: [value, value] for name, value in {**none, **limits}.items()})


def lit(p: float, brightness: float = 0, contrast: float = 0) -> dict[str, Any]:
    limits = {"brightness_limit": [brightness] * 2, "contrast_limit": [contrast] * 2}
    return leaf("RandomBrightnessContrast", p, **limits, brightness_by_max=True)


def one_of(*transforms: dict[str, Any]) -> dict[str, Any]:
    return {"__class_fullname__": "albumentations.core.composition.OneOf", "p": 1, "transforms": list(transforms)}


def sequential(p: float, *transforms: dict[str, Any]) -> dict[str, Any]:
    return {"__class_fullname__": "albumentations.core.composition.Sequential", "p": p, "transforms": list(transforms)}


def pipeline(*sequentials: dict[str, Any]) -> dict[str, Any]:
    transforms = [one_of(*sequentials), leaf("Normalize", 1.0, mean=[0.5], std=[0.2])]
    compose = {"__class_fullname__": "albumentations.core.composition.Compose", "p": 1.0, "transforms": transforms}
    return {"__version__": "0.5.2", "transform": compose}


POLICY = pipeline(
    sequential(
        0.1,
        one_of(moved(0.2, rotate_limit=-60.0), leaf("VerticalFlip", 0.3), leaf("NoOp", 0.5)),
        one_of(leaf("Solarize", 0.1, threshold=[200, 200]), lit(0.2, contrast=0.5), leaf("NoOp", 0.1)),
    ),
    sequential(
        0.3,
        one_of(moved(0.4, shift_limit_x=-0.9), moved(0.2, scale_limit=3.0), leaf("NoOp", 0.4)),
        one_of(leaf("CoarseDropout", 0.5, max_holes=1), leaf("CoarseDropout", 0.1, max_holes=16), lit(0.4, 0.25)),
    ),
)
