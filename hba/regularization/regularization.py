"""Applies the regularizers of a search space: to images, in the network, and in the loss.

In a search every image has its own values; in an ordinary training all images have those of the epoch.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from hba.errors import SettingsError
from hba.regularization.groups import find_regularizer
from hba.regularization.in_training import DROPOUT, WEIGHT_DECAY, set_dropout, set_weight_decay
from hba.regularization.regularizer import IN_LOSS, ON_IMAGES, Hyperparameter, Place, Regularizer


@dataclass(frozen=True)
class Group:
    """A regularizer, and the columns of its hyperparameters by own name.

    fixed: further arguments of its function. whole: own names of hyperparameters that are rounded.
    """

    regularizer: Regularizer
    columns: Mapping[str, int]
    fixed: Mapping[str, Any]
    whole: frozenset[str]

    def __call__(self, *arguments: Any, rows: Tensor, **further: Any) -> Tensor:
        """rows (B, n): values of each image."""
        assert self.regularizer.function is not None
        values = {name: rows[:, column] for name, column in self.columns.items()}
        values |= {name: values[name].round() for name in self.whole}
        return self.regularizer.function(*arguments, **values, **self.fixed, **further)


@dataclass(frozen=True)
class Regularization:
    """The regularizers of a search space. hyperparameters: theirs, which begin at the column `first`."""

    hyperparameters: tuple[Hyperparameter, ...]
    first: int

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        by_group: dict[str, dict[str, tuple[int, Hyperparameter]]] = {}
        for column, one in enumerate(self.hyperparameters, self.first):
            by_group.setdefault(one.group, {})[one.own_name] = (column, one)
        return tuple(_group(name, members) for name, members in by_group.items())

    @cached_property
    def dropout_columns(self) -> Mapping[str, int]:
        """Columns of dropout rates, by module name."""
        return next((group.columns for group in self.groups if group.regularizer.name == DROPOUT), {})

    @cached_property
    def weight_decay_column(self) -> int | None:
        return next((group.columns["value"] for group in self.groups if group.regularizer.name == WEIGHT_DECAY), None)

    @cached_property
    def image_columns(self) -> tuple[int, ...]:
        """Columns of regularizers that act on images only."""
        return tuple(
            column for group in self.groups if group.regularizer.place in ON_IMAGES for column in group.columns.values()
        )

    def on_pixels(self, images: Tensor, values: Tensor, generator: torch.Generator, fill: Tensor) -> Tensor:
        """Images (B, C, H, W) in [0, 1] after the policy. values: (n,), or (B, n) with a row for each image."""
        return self._on_images("pixels", images, values, generator, fill)

    def on_inputs(self, images: Tensor, values: Tensor, generator: torch.Generator) -> Tensor:
        """The network's input (B, C, H, W)."""
        return self._on_images("inputs", images, values, generator, None)

    def _on_images(
        self, place: Place, images: Tensor, values: Tensor, generator: torch.Generator, fill: Tensor | None
    ) -> Tensor:
        for group in self._at(place):
            further = {"fill": fill} if group.regularizer.uses_fill else {}
            images = group(images, generator, rows=values.expand(len(images), -1), **further)
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
        set_dropout(network, {name: row[f"{DROPOUT}.{name}"] for name in self.dropout_columns})
        if optimizer is not None and WEIGHT_DECAY in row:
            set_weight_decay(optimizer, row[WEIGHT_DECAY])

    def _at(self, place: Place) -> Iterator[Group]:
        return (group for group in self.groups if group.regularizer.place == place)


def _group(name: str, members: Mapping[str, tuple[int, Hyperparameter]]) -> Group:
    regularizer = find_regularizer(name)
    wanted = [one.own_name for one in regularizer.hyperparameters]
    if wanted and set(wanted) != set(members):
        raise SettingsError(f"the regularizer {name} must have {', '.join(wanted)}, got {', '.join(members)}")
    ranges = {own: one for own, (_, one) in members.items()}
    columns, whole = {own: column for own, (column, _) in members.items()}, [own for own in ranges if ranges[own].whole]
    return Group(regularizer, columns, regularizer.fixed(ranges), frozenset(whole))
