"""The regularizers by name, registration of your own, and the groups that the setting `tune` accepts."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from torch import nn

from hba.errors import SettingsError
from hba.regularization.in_training import (
    DROPOUT,
    WEIGHT_DECAY,
    activation,
    dropout_hyperparameters,
    label_smoothing,
    weight_decay_hyperparameter,
)
from hba.regularization.on_images import affine, cutout, input_dropout, input_noise, jitter
from hba.regularization.regularizer import ON_IMAGES, Hyperparameter, Ranges, Regularizer
from hba.utils.text import unknown

PIXELS = "pixels"
SIDE = 32
"""Side of images (CIFAR-10's) that ranges in pixels are for."""
AUGMENTATION = "augmentation"
"""Name in `tune` of the operations of the search space."""


def _numbers(group: str, *rows: tuple[str, float, float, float, str | None]) -> tuple[Hyperparameter, ...]:
    return tuple(
        Hyperparameter(f"{group}.{own}", low, high, initial, unit=unit) for own, low, high, initial, unit in rows
    )


def _most_holes(ranges: Ranges) -> Mapping[str, int]:
    return {"most_holes": round(ranges["holes"].high)}


_CUTOUT = (
    Hyperparameter("cutout.length", 0, 24, 4, whole=True, unit=PIXELS),
    Hyperparameter("cutout.holes", 0, 4, 1, whole=True),
)
"""STN, Appendix E."""
_JITTER = _numbers(
    "jitter",
    ("brightness", 0, 1, 0.05, None),
    ("contrast", 0, 1, 0.05, None),
    ("saturation", 0, 1, 0.05, None),
    ("hue", 0, 0.5, 0.05, None),
)
"""STN, Appendix E; largest changes, as torchvision's ColorJitter has them."""
_AFFINE = _numbers(
    "affine",
    ("degrees", 0, 45, 5, "degrees"),
    ("shear", 0, 45, 5, "degrees"),
    ("translate", 0, 0.5, 0.05, "share of the side"),
    ("scale", 0, 0.5, 0.05, None),
)
"""Delta-STN's code; largest changes, as torchvision's RandomAffine has them."""
_ACTIVATION = _numbers("activation", ("alpha", 0, 4, 0.05, None), ("beta", 0, 4, 0.05, None))
"""STN, section 4.2."""

REGULARIZERS: Mapping[str, Regularizer] = MappingProxyType(
    {
        one.name: one
        for one in (
            Regularizer(DROPOUT, (), "network"),
            Regularizer(WEIGHT_DECAY, (weight_decay_hyperparameter(5e-4),), "network"),
            Regularizer("label_smoothing", (Hyperparameter("label_smoothing", 0, 0.5, 0.05),), "loss", label_smoothing),
            Regularizer(
                "input_dropout", _numbers("input_dropout", ("rate", 0, 0.75, 0.05, None)), "inputs", input_dropout
            ),
            Regularizer(
                "input_noise", _numbers("input_noise", ("deviation", 0, 0.3, 0.05, None)), "inputs", input_noise
            ),
            Regularizer("cutout", _CUTOUT, "inputs", cutout, fixed=_most_holes),
            Regularizer("jitter", _JITTER, "pixels", jitter),
            Regularizer("affine", _AFFINE, "pixels", affine, uses_fill=True),
            Regularizer("activation", _ACTIVATION, "states", activation),
        )
    }
)
"""The built-in regularizers by name."""

_registered: dict[str, Regularizer] = {}


def register_regularizer(regularizer: Regularizer) -> Regularizer:
    """Register a regularizer of your own, so that `tune` and schedules can name it; returns it.

    It replaces an earlier one of the same name. Raises SettingsError for a built-in name, and for a regularizer without
    a function.
    """
    if regularizer.name in REGULARIZERS or regularizer.tuned_as == AUGMENTATION:
        raise SettingsError(f"{regularizer.name} is a built-in regularizer; give yours another name")
    if regularizer.function is None or not regularizer.hyperparameters:
        raise SettingsError(f"the regularizer {regularizer.name} must have a function and hyperparameters")
    _registered[regularizer.name] = regularizer
    return regularizer


def registered_regularizers() -> tuple[Regularizer, ...]:
    return tuple(_registered.values())


def find_regularizer(name: str) -> Regularizer:
    """The regularizer of that exact name; SettingsError with the known names if there is none."""
    known = {**REGULARIZERS, **_registered}
    if name not in known:
        raise SettingsError(unknown("regularizer", name, known))
    return known[name]


def tunable() -> tuple[str, ...]:
    """The names that `tune` accepts in a search on images: all regularizers that need no recurrent network."""
    known = (*REGULARIZERS.values(), *_registered.values())
    return (AUGMENTATION, *(one.tuned_as for one in known if one.place != "states"))


def check_tune(tune: Iterable[str]) -> tuple[str, ...]:
    """The names; SettingsError for a name that cannot be tuned, for a repeated one, and for none."""
    names = tuple(tune)
    for name in names:
        if name not in tunable():
            raise SettingsError(unknown("group", name, tunable()))
    if not names or len(set(names)) < len(names):
        raise SettingsError(f"tune must name at least one group and each once, got {', '.join(names) or 'none'}")
    return names


def hyperparameters_of(
    tune: Iterable[str], network: Callable[[], nn.Module], weight_decay: float, image_size: int = SIDE
) -> tuple[Hyperparameter, ...]:
    """The hyperparameters of the named groups, in the order of the names.

    weight_decay: of the settings, where the search of it begins. image_size: side of the images in pixels; ranges in
    pixels are for SIDE and scale with it.
    """

    def of(group: str) -> Iterator[Hyperparameter]:
        if group == DROPOUT:
            yield from dropout_hyperparameters(network())
        elif group == WEIGHT_DECAY:
            yield weight_decay_hyperparameter(weight_decay)
        else:
            yield from (_at_size(one, image_size) for one in find_regularizer(group).hyperparameters)

    return tuple(one for name in tune if name != AUGMENTATION for one in of(name.replace("-", "_")))


def _at_size(one: Hyperparameter, image_size: int) -> Hyperparameter:
    if one.unit != PIXELS or image_size == SIDE:
        return one
    low, high, initial = (round(number * image_size / SIDE) for number in (one.low, one.high, one.initial))
    return replace(one, low=low, high=max(high, low + 1), initial=initial)


def acts_on_images(name: str) -> bool:
    """Whether a hyperparameter of that name acts on images only, not inside the network or in the loss."""
    return find_regularizer(name.partition(".")[0]).place in ON_IMAGES
