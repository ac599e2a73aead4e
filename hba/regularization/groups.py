"""The regularizers by name, registering your own, and what `tune` may name.

`python -m hba.regularization.groups` prints the table of the documentation.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from torch import nn

from hba.errors import SettingsError
from hba.regularization.in_training import (
    DROPOUT,
    INITIAL_RATE,
    LARGEST_RATE,
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
"""Of images in pixels: what ranges in pixels are for, those of CIFAR-10."""
AUGMENTATION = "augmentation"
"""In `tune`, the operations of the search space."""


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
"""hba's own, by name."""

LIMITS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        DROPOUT: (0, 1),
        WEIGHT_DECAY: (0, 100),
        "label_smoothing": (0, 1),
        "input_dropout.rate": (0, 1),
        "input_noise.deviation": (0, 10),
        "cutout.length": (0, 10_000),
        "cutout.holes": (0, 100),
        "jitter.brightness": (0, 10),
        "jitter.contrast": (0, 10),
        "jitter.saturation": (0, 10),
        "jitter.hue": (0, 0.5),
        "affine.degrees": (0, 180),
        "affine.shear": (0, 89),
        "affine.translate": (0, 1),
        "affine.scale": (0, 0.99),
        "activation.alpha": (0, 1_000),
        "activation.beta": (0, 1_000),
    }
)
"""What ranges of one's own must lie in, by hyperparameter or by group: beyond, they mean nothing."""


def check_range(one: Hyperparameter) -> None:
    """SettingsError for a range of a regularizer of hba's that reaches beyond LIMITS."""
    limits = LIMITS.get(one.name, LIMITS.get(one.group))
    if limits is not None and not limits[0] <= one.low < one.high <= limits[1]:
        raise SettingsError(
            f"the range of {one.name} must lie in {limits[0]} to {limits[1]}, got {one.low} to {one.high}"
        )


_registered: dict[str, Regularizer] = {}


def register_regularizer(regularizer: Regularizer) -> Regularizer:
    """Make a regularizer of your own known to `tune` and to schedules of it; returns it.

    One of the same name that was registered before is replaced. Raises SettingsError for a name of hba's own, and for
    one that acts inside the network, which hba alone does.
    """
    if regularizer.name in REGULARIZERS or regularizer.tuned_as == AUGMENTATION:
        raise SettingsError(f"{regularizer.name} is a regularizer of hba's own; give yours another name")
    if regularizer.function is None or not regularizer.hyperparameters:
        raise SettingsError(f"the regularizer {regularizer.name} must have a function and hyperparameters")
    _registered[regularizer.name] = regularizer
    return regularizer


def registered_regularizers() -> tuple[Regularizer, ...]:
    return tuple(_registered.values())


def find_regularizer(name: str) -> Regularizer:
    """The regularizer of that exact name; SettingsError with the known names otherwise."""
    known = {**REGULARIZERS, **_registered}
    if name not in known:
        raise SettingsError(unknown("regularizer", name, known))
    return known[name]


def tunable() -> tuple[str, ...]:
    """What the setting `tune` may name in a search on images: all but what needs a recurrent network."""
    known = (*REGULARIZERS.values(), *_registered.values())
    return (AUGMENTATION, *(one.tuned_as for one in known if one.place != "states"))


def check_tune(tune: Iterable[str]) -> tuple[str, ...]:
    """Raises SettingsError for what cannot be tuned, and for what is named twice."""
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
    """Those of the named groups, in the order of the names. weight_decay: of the settings, where it begins.

    image_size: side of the images in pixels; ranges in pixels are for SIDE, and grow and shrink with it.
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
    """Whether a hyperparameter of that name acts on the image alone, so that the network need not know of it."""
    return find_regularizer(name.partition(".")[0]).place in ON_IMAGES


HEADINGS = ("`--tune`", "hyperparameter", "range", "begins at", "acts on")
PLACES = {
    "pixels": "the image in [0, 1]",
    "inputs": "the network's input",
    "network": "the network",
    "loss": "the loss",
}


def table() -> str:
    """Markdown, a line for each hyperparameter of hba's own regularizers, but those of language models."""
    lines = [HEADINGS, ("---",) * len(HEADINGS), *_rows()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _rows() -> Iterator[tuple[str, ...]]:
    of_dropout = Hyperparameter(f"{DROPOUT}.<module>", 0.0, LARGEST_RATE, INITIAL_RATE)
    for regularizer in (one for one in REGULARIZERS.values() if one.place in PLACES):
        for number, one in enumerate(regularizer.hyperparameters or (of_dropout,)):
            group = "" if number else f"`{regularizer.tuned_as}`"
            yield (group, f"`{one.name}`", _range(one), f"{one.initial:g}", PLACES[regularizer.place])


def _range(one: Hyperparameter) -> str:
    notes = [note for note, holds in (("log", one.scale == "log"), ("whole", one.whole), (one.unit, one.unit)) if holds]
    return f"{one.low:g} to {one.high:g}" + (f" ({', '.join(map(str, notes))})" if notes else "")


if __name__ == "__main__":
    print(table())
