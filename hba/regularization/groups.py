"""The regularizers by name, registration of your own, and how those of a search space are applied.

In a search every image has its own values; in an ordinary training all images have those of the epoch.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

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
from hba.regularization.regularizer import IN_LOSS, ON_IMAGES, Hyperparameter, Place, Regularizer
from hba.utils.text import unknown

PIXELS = "pixels"
SIDE = 32
"""Side of images (CIFAR-10's) that ranges in pixels are for."""
AUGMENTATION = "augmentation"
"""Name in `tune` of the operations of the search space."""


_HYPERPARAMETERS = (
    weight_decay_hyperparameter(5e-4),
    Hyperparameter("label_smoothing", 0, 0.5, 0.05),
    Hyperparameter("input_dropout.rate", 0, 0.75, 0.05),
    Hyperparameter("input_noise.deviation", 0, 0.3, 0.05),
    # STN, Appendix E.
    Hyperparameter("cutout.length", 0, 24, 4, whole=True, unit=PIXELS),
    Hyperparameter("cutout.holes", 0, 4, 1, whole=True),
    # STN, Appendix E; largest changes, as torchvision's ColorJitter has them.
    Hyperparameter("jitter.brightness", 0, 1, 0.05),
    Hyperparameter("jitter.contrast", 0, 1, 0.05),
    Hyperparameter("jitter.saturation", 0, 1, 0.05),
    Hyperparameter("jitter.hue", 0, 0.5, 0.05),
    # Delta-STN's code; largest changes, as torchvision's RandomAffine has them.
    Hyperparameter("affine.degrees", 0, 45, 5, unit="degrees"),
    Hyperparameter("affine.shear", 0, 45, 5, unit="degrees"),
    Hyperparameter("affine.translate", 0, 0.5, 0.05, unit="share of the side"),
    Hyperparameter("affine.scale", 0, 0.5, 0.05),
    # STN, section 4.2.
    Hyperparameter("activation.alpha", 0, 4, 0.05),
    Hyperparameter("activation.beta", 0, 4, 0.05),
)


def _built_in(
    name: str, place: Place, function: Callable[..., Tensor] | None = None, *, uses_fill: bool = False
) -> Regularizer:
    own = tuple(one for one in _HYPERPARAMETERS if one.group == name)
    return Regularizer(name, own, place, function, uses_fill)


_BUILT_IN = (
    _built_in(DROPOUT, "network"),
    _built_in(WEIGHT_DECAY, "network"),
    _built_in("label_smoothing", "loss", label_smoothing),
    _built_in("input_dropout", "inputs", input_dropout),
    _built_in("input_noise", "inputs", input_noise),
    _built_in("cutout", "inputs", cutout),
    _built_in("jitter", "pixels", jitter),
    _built_in("affine", "pixels", affine, uses_fill=True),
    _built_in("activation", "states", activation),
)
REGULARIZERS: Mapping[str, Regularizer] = MappingProxyType({one.name: one for one in _BUILT_IN})
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


def acts_on_images(name: str) -> bool:
    """Whether a hyperparameter of that name acts on images only, not inside the network or in the loss."""
    return find_regularizer(name.partition(".")[0]).place in ON_IMAGES


def tunable() -> tuple[str, ...]:
    """The names that `tune` accepts in a search on images: all regularizers that need no recurrent network."""
    known = (*REGULARIZERS.values(), *_registered.values())
    return (AUGMENTATION, *(one.tuned_as for one in known if one.place != "states"))


def check_tune(tune: Iterable[str], *, known: Collection[str] | None = None) -> tuple[str, ...]:
    """The names; SettingsError for one that is not in known (default: tunable()), for a repeated one, and for none."""
    names, known = tuple(tune), tunable() if known is None else known
    for name in names:
        if name not in known:
            raise SettingsError(unknown("group", name, known))
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

    def of(group: str) -> Iterable[Hyperparameter]:
        if group == DROPOUT:
            return dropout_hyperparameters(network())
        if group == WEIGHT_DECAY:
            return [weight_decay_hyperparameter(weight_decay)]
        return [_at_size(one, image_size) for one in find_regularizer(group).hyperparameters]

    return tuple(one for name in tune if name != AUGMENTATION for one in of(name.replace("-", "_")))


def _at_size(one: Hyperparameter, image_size: int) -> Hyperparameter:
    if one.unit != PIXELS or image_size == SIDE:
        return one
    low, high, initial = (round(number * image_size / SIDE) for number in (one.low, one.high, one.initial))
    return replace(one, low=low, high=max(high, low + 1), initial=initial)


@dataclass(frozen=True)
class Group:
    """A regularizer, and its hyperparameters in a search space with their columns, by own name."""

    regularizer: Regularizer
    members: Mapping[str, tuple[int, Hyperparameter]]

    def __call__(self, *arguments: Any, rows: Tensor, **further: Any) -> Tensor:
        """rows (B, n): values of each image."""
        assert self.regularizer.function is not None
        values = {own: rows[:, column] for own, (column, _) in self.members.items()}
        values |= {own: values[own].round() for own, (_, one) in self.members.items() if one.whole}
        if self.regularizer.function is cutout:
            further["most_holes"] = round(self.members["holes"][1].high)
        return self.regularizer.function(*arguments, **values, **further)


@dataclass(frozen=True)
class Regularization:
    """The regularizers of a search space. hyperparameters: theirs, which begin at the column `first`."""

    hyperparameters: tuple[Hyperparameter, ...]
    first: int

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        members: dict[str, dict[str, tuple[int, Hyperparameter]]] = {}
        for column, one in enumerate(self.hyperparameters, self.first):
            members.setdefault(one.group, {})[one.own_name] = (column, one)
        groups = tuple(Group(find_regularizer(name), own) for name, own in members.items())
        for group in groups:
            wanted = [one.own_name for one in group.regularizer.hyperparameters]
            if wanted and set(wanted) != set(group.members):
                raise SettingsError(
                    f"the regularizer {group.regularizer.name} must have {', '.join(wanted)}, got "
                    f"{', '.join(group.members)}"
                )
        return groups

    @cached_property
    def dropout_columns(self) -> Mapping[str, int]:
        """Columns of dropout rates, by module name."""
        return self._columns(DROPOUT)

    @cached_property
    def weight_decay_column(self) -> int | None:
        return self._columns(WEIGHT_DECAY).get("value")

    def _columns(self, name: str) -> Mapping[str, int]:
        """Columns of a regularizer, by own name."""
        found = [group.members for group in self.groups if group.regularizer.name == name]
        return {own: column for members in found for own, (column, _) in members.items()}

    @cached_property
    def image_columns(self) -> tuple[int, ...]:
        """Columns of regularizers that act on images only."""
        found = [group.members.values() for group in self.groups if group.regularizer.place in ON_IMAGES]
        return tuple(column for members in found for column, _ in members)

    def on_pixels(self, images: Tensor, values: Tensor, generator: torch.Generator, fill: Tensor) -> Tensor:
        """Images (B, C, H, W) in [0, 1] after the policy. values: (n,), or (B, n) with a row for each image."""
        for group in self._at("pixels"):
            further = {"fill": fill} if group.regularizer.uses_fill else {}
            images = group(images, generator, rows=values.expand(len(images), -1), **further)
        return images

    def on_inputs(self, images: Tensor, values: Tensor, generator: torch.Generator) -> Tensor:
        """The network's input (B, C, H, W)."""
        for group in self._at("inputs"):
            images = group(images, generator, rows=values.expand(len(images), -1))
        return images

    def penalty(self, outputs: Any, labels: Tensor, values: Tensor) -> Tensor:
        """The mean () over the images of what is added to the loss besides weight decay.

        outputs: logits, or the outputs of a recurrent network with its states.
        """
        rows = values.expand(len(labels), -1)
        of_outputs = [group(outputs, labels, rows=rows) for group in self._at("loss")]
        of_states = [group(outputs.states, outputs.dropped, rows=rows) for group in self._at("states")]
        return sum((one.mean() for one in of_outputs + of_states), values.new_zeros(()))

    @property
    def has_penalty(self) -> bool:
        return any(group.regularizer.place in IN_LOSS for group in self.groups)

    def give(self, network: nn.Module, optimizer: Optimizer | None, row: Mapping[str, float]) -> None:
        """Set the dropout rates of a network and the weight decay of its optimizer to a row of values by name."""
        for name in self.dropout_columns:
            network.get_submodule(name).p = row[f"{DROPOUT}.{name}"]  # type: ignore[assignment]
        for group in optimizer.param_groups if optimizer is not None and WEIGHT_DECAY in row else ():
            group["weight_decay"] = row[WEIGHT_DECAY]

    def _at(self, place: Place) -> Iterator[Group]:
        return (group for group in self.groups if group.regularizer.place == place)
