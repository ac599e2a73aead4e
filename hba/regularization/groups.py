"""The regularizers by name, registration of your own, and how those of a search space
are applied.

In a search every image has its own values; in an ordinary training all images have
those of the epoch.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from hba.errors import SettingsError
from hba.hypernet.dropout import DROPOUTS, RatedDropout
from hba.preprocessing import uniform_draws
from hba.regularization.regularizer import Hyperparameter, Place, Regularizer
from hba.tasks import IMAGE_TASKS, TASKS, Language, MixedLabels, Outputs, task_of
from hba.tasks.language import activation
from hba.tasks.mixed_labels import mean_over_labels
from hba.utils.text import unknown

AUGMENTATION = "augmentation"
"""Name of the operations of the search space in `tune`."""
DROPOUT = "dropout"
WEIGHT_DECAY = "weight_decay"
LARGEST_RATE = 0.95
"""Largest dropout rate (STN, section 4.2; also in Delta-STN's code for images)."""
INITIAL_RATE = 0.05
"""Initial dropout rate for a network whose own rate is 0 (STN, sections 4.2 and 4.3).
"""
LEAST_WEIGHT_DECAY = 1e-6
"""Low end of a range around common values: 5e-5 to 0.01 in the paper's Tables 10 and
11.
"""
LARGEST_WEIGHT_DECAY = 0.1
"""High end of that range."""
INITIAL_WEIGHT_DECAY = 1e-5
"""If the settings have no weight decay. The lower end of the range would hardly move.
"""


def dropouts(network: nn.Module) -> Mapping[str, nn.Module]:
    """Dropout modules by name, in the order of their definition, without duplicates."""
    modules = network.named_modules()
    return {
        name: module
        for name, module in modules
        if type(module) in DROPOUTS or isinstance(module, RatedDropout)
    }


def weight_decay_hyperparameter(weight_decay: float) -> Hyperparameter:
    """Weight decay on a log scale. It starts at the value of the settings, limited to
    the range, or at the default.
    """
    initial = min(
        max(weight_decay or INITIAL_WEIGHT_DECAY, LEAST_WEIGHT_DECAY),
        LARGEST_WEIGHT_DECAY,
    )
    return Hyperparameter(
        WEIGHT_DECAY, LEAST_WEIGHT_DECAY, LARGEST_WEIGHT_DECAY, initial, "log"
    )


def check_dropouts(
    network: nn.Module, names: Sequence[str], *, may_be_some: bool = False
) -> None:
    """Check that the names are those of the dropout modules of the network.

    Args:
        network: The network.
        names: The names to check.
        may_be_some: Whether the names of some of the modules are enough.

    Raises:
        SettingsError: If the network has no such module, or if one is missing.
    """
    existing = dropouts(network)
    if not set(names) <= set(existing) or (
        len(set(names)) < len(existing) and not may_be_some
    ):
        problem = (
            f"the schedule has rates for the dropouts {', '.join(names)}, but"
            f" {type(network).__name__} has"
        )
        remedy = (
            "train the model that was searched, or take schedule.without_regularizers()"
            " in Python"
        )
        raise SettingsError(f"{problem} {', '.join(existing) or 'none'}: {remedy}")


def label_smoothing(logits: Tensor, labels: Tensor, *, value: Tensor) -> Tensor:
    """What smoothing labels adds to the loss of each image (B,).

    Targets are (1 - s) onehot + s / K (Szegedy et al. 2016, section 7), of several
    labels (1 - s) y + s / 2 each. The loss is linear in the targets, so it grows by s
    (loss of the even targets - loss of the labels).

    Args:
        logits: Logits (B, K).
        labels: Labels of the images.
        value: Smoothing (B,) of each image, in [0, 1].
    """
    return value * task_of(labels).smoothing(logits, labels)


def input_dropout(
    images: Tensor, generator: torch.Generator | None, *, rate: Tensor
) -> Tensor:
    """Set numbers of standardized images to 0 at random.

    The others are divided by 1 - rate, so the mean stays. Ref: Srivastava et al. 2014;
    MacKay et al. 2019, section 4.3.

    Args:
        images: Standardized images (B, C, H, W).
        generator: Random numbers.
        rate: Probability of 0 for each image (B,), in [0, 1].
    """
    rate = rate.detach()[:, None, None, None]
    # float32 for all: draws in half precision would be too coarse for small rates.
    dropped = (
        uniform_draws(len(images), images.shape[1:], generator, images.device) < rate
    )
    kept_share = (1 - rate).clamp(min=torch.finfo(rate.dtype).eps)
    return images.masked_fill(dropped, 0) / kept_share.to(images.dtype)


_ACTIVATION = tuple(
    Hyperparameter(f"activation.{name}", 0, 4, 0.05) for name in ("alpha", "beta")
)
"""STN, section 4.2."""
_BUILT_IN = (
    Regularizer(DROPOUT, (), "network", tasks=tuple(TASKS)),
    Regularizer("activation", _ACTIVATION, "loss", activation, (Language.name,)),
    Regularizer(
        WEIGHT_DECAY,
        (weight_decay_hyperparameter(5e-4),),
        "network",
        tasks=tuple(TASKS),
    ),
    Regularizer(
        "label_smoothing",
        (Hyperparameter("label_smoothing", 0, 0.5, 0.05),),
        "loss",
        label_smoothing,
    ),
    Regularizer(
        "input_dropout",
        (Hyperparameter("input_dropout.rate", 0, 0.75, 0.05),),
        "inputs",
        input_dropout,
    ),
)
REGULARIZERS = {regularizer.name: regularizer for regularizer in _BUILT_IN}
"""By name; registered ones come last."""


def register_regularizer(regularizer: Regularizer) -> Regularizer:
    """Register a regularizer of your own, so that `tune` and schedules can name it.

    It replaces an earlier one of the same name.

    Args:
        regularizer: The regularizer, with a function and hyperparameters.

    Returns:
        The same regularizer.

    Raises:
        SettingsError: For a built-in name, for a regularizer without function, and for
            an unknown task.
    """
    name = regularizer.name
    built_in = (AUGMENTATION, *(existing.name for existing in _BUILT_IN))
    if name in built_in or not (regularizer.function and regularizer.hyperparameters):
        raise SettingsError(
            f"{name} must be a name that is not built in, with a function and"
            " hyperparameters"
        )
    if not (tasks := {*tasks_of(regularizer)}) or not tasks <= TASKS.keys():
        raise SettingsError(
            f"the tasks of the regularizer {name} must be some of {', '.join(TASKS)},"
            f" got {', '.join(sorted(tasks)) or 'none'}"
        )
    REGULARIZERS[name] = regularizer
    return regularizer


def registered_regularizers() -> tuple[Regularizer, ...]:
    return tuple(REGULARIZERS.values())[len(_BUILT_IN) :]


def find_regularizer(name: str) -> Regularizer:
    """The regularizer of that exact name; SettingsError with the known names if there
    is none.
    """
    if name not in REGULARIZERS:
        raise SettingsError(unknown("regularizer", name, REGULARIZERS))
    return REGULARIZERS[name]


def tasks_of(regularizer: Regularizer) -> tuple[str, ...]:
    """Names of the tasks that can tune a regularizer."""
    return tuple(IMAGE_TASKS) if regularizer.tasks is None else regularizer.tasks


def tunable_in(tasks: Collection[str]) -> tuple[str, ...]:
    """The names in `tune` of all regularizers for any of the named tasks."""
    return tuple(
        regularizer.tuned_as
        for regularizer in REGULARIZERS.values()
        if not {*tasks}.isdisjoint(tasks_of(regularizer))
    )


def tunable() -> tuple[str, ...]:
    """The names that `tune` accepts in a search on images."""
    return (AUGMENTATION, *tunable_in(IMAGE_TASKS))


def check_tune(
    tune: Iterable[str], *, allowed: Collection[str] | None = None
) -> tuple[str, ...]:
    """Check the names of the setting `tune`.

    Args:
        tune: The names.
        allowed: The names that are allowed; None for tunable().

    Returns:
        The names.

    Raises:
        SettingsError: For a name that is not allowed, a repeated one, and none.
    """
    names = tuple(tune)
    allowed = tunable() if allowed is None else allowed
    for name in names:
        if name not in allowed:
            raise SettingsError(unknown("group", name, allowed))
    if not names or len(set(names)) < len(names):
        raise SettingsError(
            "tune must name at least one group and each once, got"
            f" {', '.join(names) or 'none'}"
        )
    return names


def hyperparameters_of(
    tune: Iterable[str], network: Callable[[], nn.Module], weight_decay: float
) -> tuple[Hyperparameter, ...]:
    """The hyperparameters of the named groups, in the order of the names.

    Dropout has one for each module, `dropout.<module>`, which starts at the module's
    rate if that is not 0.

    Args:
        tune: Names of groups, as in the setting `tune`.
        network: Makes the network, whose dropout modules are read.
        weight_decay: Weight decay of the settings, the initial value.

    Raises:
        SettingsError: For dropout, if the network has none.
    """
    hyperparameters: list[Hyperparameter] = []
    for group in [name.replace("-", "_") for name in tune if name != AUGMENTATION]:
        if group == DROPOUT:
            rates: dict[str, Any] = {
                f"{DROPOUT}.{name}": module.p
                for name, module in dropouts(network()).items()
            }
            if not rates:
                raise SettingsError(
                    "tune dropout needs a network with modules nn.Dropout; give one, or"
                    " omit dropout"
                )
            initial = {
                name: min(float(rate) or INITIAL_RATE, LARGEST_RATE)
                for name, rate in rates.items()
            }
            hyperparameters += [
                Hyperparameter(name, 0.0, LARGEST_RATE, rate)
                for name, rate in initial.items()
            ]
        elif group == WEIGHT_DECAY:
            hyperparameters.append(weight_decay_hyperparameter(weight_decay))
        else:
            hyperparameters += find_regularizer(group).hyperparameters
    return tuple(hyperparameters)


@dataclass(frozen=True)
class Regularization:
    """The regularizers of a search space."""

    hyperparameters: tuple[Hyperparameter, ...]
    """The hyperparameters of the regularizers."""
    first: int
    """Column of the first one."""

    @cached_property
    def members(self) -> Mapping[str, Mapping[str, tuple[int, Hyperparameter]]]:
        """For each regularizer, by name, its hyperparameters with their columns, by own
        name.

        Raises SettingsError if the space has only some hyperparameters of a
        regularizer.
        """
        members: dict[str, dict[str, tuple[int, Hyperparameter]]] = {}
        for column, hyperparameter in enumerate(self.hyperparameters, self.first):
            members.setdefault(hyperparameter.group, {})[hyperparameter.own_name] = (
                column,
                hyperparameter,
            )
        for name, by_own_name in members.items():
            expected = {
                hyperparameter.own_name
                for hyperparameter in find_regularizer(name).hyperparameters
            }
            if expected and expected != by_own_name.keys():
                names = f"{', '.join(sorted(expected))}, got {', '.join(by_own_name)}"
                raise SettingsError(f"the regularizer {name} must have {names}")
        return members

    @cached_property
    def dropout_columns(self) -> Mapping[str, int]:
        """By module name."""
        return {
            name: column for name, (column, _) in self.members.get(DROPOUT, {}).items()
        }

    @cached_property
    def weight_decay_column(self) -> int | None:
        return next(
            (column for column, _ in self.members.get(WEIGHT_DECAY, {}).values()), None
        )

    @cached_property
    def image_columns(self) -> tuple[int, ...]:
        numbered = enumerate(self.hyperparameters, self.first)
        return tuple(
            column
            for column, hyperparameter in numbered
            if find_regularizer(hyperparameter.group).place == "inputs"
        )

    def on_inputs(
        self, images: Tensor, values: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Apply the regularizers of the network's input (B, C, H, W)."""
        for regularizer, own_values in self._at("inputs", values, len(images)):
            images = regularizer(images, generator, **own_values)
        return images

    def penalty(
        self, outputs: Outputs, labels: Tensor | MixedLabels, values: Tensor
    ) -> Tensor:
        """The mean () over the images of all terms of the loss, except weight decay.

        Args:
            outputs: Outputs of the network.
            labels: Labels of the images.
            values: Values of all hyperparameters, in natural units.
        """
        penalties = [
            mean_over_labels(partial(regularizer, outputs, **own_values), labels)
            for regularizer, own_values in self._at("loss", values, len(labels))
        ]
        return sum((penalty.mean() for penalty in penalties), values.new_zeros(()))

    @property
    def has_penalty(self) -> bool:
        return any(find_regularizer(name).place == "loss" for name in self.members)

    def give(
        self, network: nn.Module, optimizer: Optimizer | None, row: Mapping[str, float]
    ) -> None:
        """Set dropout rates and weight decay to the values of a row.

        Args:
            network: The network whose dropout rates are set.
            optimizer: The optimizer whose weight decay is set, if there is one.
            row: Values by name.
        """
        for name in self.dropout_columns:
            network.get_submodule(name).p = row[f"{DROPOUT}.{name}"]  # type: ignore[assignment]
        for group in (
            optimizer.param_groups
            if optimizer is not None and WEIGHT_DECAY in row
            else ()
        ):
            group["weight_decay"] = row[WEIGHT_DECAY]

    def _at(
        self, place: Place, values: Tensor, n_images: int
    ) -> Iterator[tuple[Regularizer, dict[str, Any]]]:
        """The regularizers of a place, and for each the values by own name, one number
        for each image (B,).
        """
        rows = values.expand(n_images, -1)
        for name, members in self.members.items():
            if (regularizer := find_regularizer(name)).place == place:
                own_values: dict[str, Any] = {
                    name: rows[:, column] for name, (column, _) in members.items()
                }
                own_values |= {
                    name: own_values[name].round()
                    for name, (_, hyperparameter) in members.items()
                    if hyperparameter.whole
                }
                yield regularizer, own_values
