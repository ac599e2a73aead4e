"""The rows of an evaluation: which augmentation each name stands for."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from torchvision.transforms import AutoAugment, AutoAugmentPolicy, RandAugment

from hba.config.evaluation import EvaluationConfig
from hba.config.training import SGD, SGDS
from hba.data.images import EvaluationData
from hba.errors import SettingsError
from hba.models import Start
from hba.operations import COMMON_CHANNELS, check_channels, color_for
from hba.policy_evaluation.own_rivals import check_augmentation, own_name
from hba.policy_evaluation.rivals import (
    final,
    middle,
    only_augmentation,
    only_regularization,
    point,
    respread,
    shuffled,
    start,
    start_point,
    static,
)
from hba.policy_evaluation.strength import AsStrong
from hba.policy_evaluation.torchvision_policies import ScaledTrivialAugment, TorchvisionPolicy
from hba.regularization.in_network import DROPOUT, WEIGHT_DECAY, check_dropouts
from hba.schedule.library import load_policy
from hba.schedule.schedule import Schedule
from hba.schedule.summary import is_of_text
from hba.training.augmentation import Augmentation, ScheduleAugmentation, Unchanged
from hba.training.custom_network import CustomNetwork
from hba.training.trainer import network_of

NONE = "none"
SEEDS = "seeds of an evaluation"
"""Part of every definition: results of versions whose evaluations had the seeds of searches are not resumed."""


@dataclass(frozen=True)
class Contender:
    """What one row trains with. augmentations: training seed s takes number s mod their count. own_network: in the
    place of the setting `model`. start: what the model begins with in the place of fresh weights.
    """

    name: str
    config: EvaluationConfig
    augmentations: tuple[Augmentation, ...]
    own_network: CustomNetwork | None = None
    start: Start | None = None

    def augmentation(self, seed: int) -> Augmentation:
        return self.augmentations[seed % len(self.augmentations)]

    @property
    def definition(self) -> str:
        """A hash of what this row does otherwise than other rows."""
        parts = [
            SEEDS,
            str(self.config.baseline_augmentation().cutout_size),
            *(part.definition for part in self.augmentations),
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


Made = tuple[EvaluationConfig, tuple[Augmentation, ...]]
Make = Callable[[Schedule, EvaluationConfig], Made]
"""From the schedule to compare with and its settings to a row's."""


def _none(schedule: Schedule, config: EvaluationConfig) -> Made:
    return config, (Unchanged(),)


def _cutout(schedule: Schedule, config: EvaluationConfig) -> Made:
    """The dataset's own Cutout, half of an image's side for data without."""
    present = config.baseline_augmentation().cutout_size
    if present:
        raise SettingsError(
            f"the baseline augmentation has a Cutout of {present} pixels already, so cutout would equal none; omit "
            "cutout, or set cutout_size to 0"
        )
    size = config.model_copy(update={"cutout_size": None}).baseline_augmentation().cutout_size or round(config.side / 2)
    return config.model_copy(update={"cutout_size": size}), (Unchanged(),)


def _of_schedule(make: Callable[[Schedule], Schedule], schedule: Schedule, config: EvaluationConfig) -> Made:
    return config, (ScheduleAugmentation(make(schedule)),)


def _shuffled(schedule: Schedule, config: EvaluationConfig) -> Made:
    """Which operation has which curve is then all that differs: how strong the schedule is stays."""
    return config, tuple(AsStrong(permuted, schedule) for permuted in shuffled(schedule))


def _rand_augment(schedule: Schedule, config: EvaluationConfig) -> Made:
    return config, (TorchvisionPolicy("torchvision RandAugment", RandAugment),)


def _trivial_augment(schedule: Schedule, config: EvaluationConfig) -> Made:
    return config, (TorchvisionPolicy("torchvision TrivialAugmentWide, shifts by side", ScaledTrivialAugment),)


_AUTO_AUGMENT_POLICIES: Mapping[str, str] = MappingProxyType(
    {"cifar10": "CIFAR10", "cifar100": "CIFAR10", "svhn": "SVHN", "svhn-full": "SVHN"}
)
"""By dataset; IMAGENET for all others."""


def _auto_augment(schedule: Schedule, config: EvaluationConfig) -> Made:
    policy = _AUTO_AUGMENT_POLICIES.get(config.baseline_like or config.data, "IMAGENET")
    make = partial(AutoAugment, policy=AutoAugmentPolicy[policy])
    return config, (TorchvisionPolicy(f"torchvision AutoAugment {policy}", make),)


@dataclass(frozen=True)
class Reserved:
    """A row that a reserved name stands for. text: what it trains with; SCHEDULE is the first row's."""

    make: Make
    text: str

    def __call__(self, schedule: Schedule, config: EvaluationConfig) -> Made:
        return self.make(schedule, config)


RIVALS: Mapping[str, Reserved] = MappingProxyType(
    {
        NONE: Reserved(_none, "the baseline augmentation alone"),
        "cutout": Reserved(
            _cutout, "the baseline augmentation and Cutout, of half the image's side or as the dataset has it"
        ),
        "random": Reserved(
            partial(_of_schedule, start),
            "where the search of SCHEDULE began, throughout, its regularizers too: by default "
            "RandAugment's policy in the search space, and "
            "where that is not known, the middle of all ranges",
        ),
        "random-point": Reserved(
            partial(_of_schedule, start_point), "`random` without its spread: every image gets the bare row"
        ),
        "middle": Reserved(
            partial(_of_schedule, middle),
            "the operations of SCHEDULE, all probabilities 0.5, all magnitudes in the middle of their range, where "
            "without a spread Brightness, Color, Contrast and Sharpness leave an image as it is",
        ),
        "shuffled": Reserved(
            _shuffled,
            "SCHEDULE with its curves handed to other operations, in ten ways that take turns over the seeds, and its "
            "magnitudes made equally strong: on average they move images by as many grey levels as SCHEDULE does",
        ),
        "static": Reserved(partial(_of_schedule, static), "the mean of SCHEDULE over its epochs, throughout"),
        "final": Reserved(partial(_of_schedule, final), "the last epoch of SCHEDULE, throughout"),
        "only-augmentation": Reserved(
            partial(_of_schedule, only_augmentation),
            "SCHEDULE without its regularizers: dropout and weight decay are the network's and the settings' own",
        ),
        "only-regularization": Reserved(
            partial(_of_schedule, only_regularization), "the regularizers of SCHEDULE, without its operations"
        ),
        "point": Reserved(
            partial(_of_schedule, point), "SCHEDULE without its spread: every image gets the bare row of its epoch"
        ),
        "randaugment": Reserved(_rand_augment, "torchvision's RandAugment, with its defaults"),
        "trivialaugment": Reserved(
            _trivial_augment,
            "torchvision's TrivialAugment, with its defaults; shifts images below 224 pixels by less, up to a seventh "
            "of the side",
        ),
        "autoaugment": Reserved(_auto_augment, "torchvision's AutoAugment, with the policy of the dataset"),
    }
)
"""By reserved name, which comes before a file that is called so."""


def check_of_images(rows: Mapping[str, object]) -> None:
    """SettingsError for a schedule of language models."""
    for name, row in rows.items():
        if isinstance(row, Schedule) and is_of_text(row):
            raise SettingsError(
                f"the row {name} is of language models, as {row.space.regularizers[-1].name} says; train these by "
                "hba evaluate-text"
            )


def check_rows_take(everyone: Sequence[Contender], schedules: Mapping[str, Schedule], n_channels: int) -> None:
    """SettingsError, before anything is trained, for a row that cannot augment images of so many channels. schedules:
    by row.
    """
    for schedule in schedules.values():
        check_channels(schedule.space.operations, n_channels)
        color_for(n_channels, schedule.fill)
    if n_channels in COMMON_CHANNELS:
        return
    for contender in everyone:
        if any(isinstance(one, TorchvisionPolicy) for one in contender.augmentations):
            raise SettingsError(
                f"{contender.name} is defined for images of 1 or 3 channels, not {n_channels}: omit it from --against"
            )


def check_networks_take(everyone: Sequence[Contender], data: EvaluationData) -> None:
    """SettingsError, before anything is trained, for a schedule with rates of other dropouts than the network has, or
    with a weight decay that is not the optimizer's.
    """
    for contender in everyone:
        # All schedules of a row have the same space.
        schedule = getattr(contender.augmentations[0], "schedule", None)
        if not isinstance(schedule, Schedule):
            continue
        names = schedule.space.names
        if WEIGHT_DECAY in names and contender.config.optimizer not in SGDS:
            raise SettingsError(
                f"the weight decay of {contender.name} is that of {SGD}, got the optimizer "
                f"{contender.config.optimizer}; train by {SGD}, or take schedule.without_regularizers() in Python"
            )
        rates = [name.removeprefix(f"{DROPOUT}.") for name in names if name.startswith(f"{DROPOUT}.")]
        if rates:
            network = network_of(contender.config, data, 0, contender.own_network, contender.start)
            check_dropouts(network, rates, may_be_some=_has_own_space(schedule))


def _has_own_space(schedule: Schedule) -> bool:
    """Whether it was searched in a space of the user's own, which may hold some dropouts of a network alone."""
    settings = schedule.provenance.get("settings")
    return isinstance(settings, Mapping) and "space" in settings and settings["space"] is None


Rival = str | Path | Schedule | Augmentation
"""A reserved name, a schedule's file or shipped name, a schedule, or an augmentation of one's own."""


def named_rows(schedule: Schedule | str | Path, against: Sequence[Rival]) -> dict[str, Schedule | Make]:
    """Row names and what stands for each, the schedule first. Raises SettingsError for two rows of one name, and for
    what no row can be made of.
    """
    if isinstance(against, str):
        raise SettingsError(f"against must be a list of names, got the text {against!r}; write [{against!r}]")
    if not isinstance(against, Iterable):
        raise SettingsError(f"against must be a list, got {type(against).__name__}; write it in brackets, as [...]")
    rows: dict[str, Schedule | Make] = {}
    if isinstance(schedule, Schedule):
        rows["schedule"] = schedule
    else:
        rows[_row_name(schedule)] = load_policy(schedule)
    for number, other in enumerate(against, start=2):
        name, row = _row(other, number)
        if name in rows:
            raise SettingsError(
                f"two rows would be called {name!r}; give each schedule a file name of its own, each augmentation of "
                "your own a `name`"
            )
        rows[name] = row
    return rows


def _row(other: Rival, number: int) -> tuple[str, Schedule | Make]:
    """The name of a row and what stands for it. number: the row's, counted from 1."""
    if isinstance(other, Schedule):
        return f"schedule {number}", other
    if isinstance(other, str | Path):
        if other in RIVALS:
            return str(other), RIVALS[str(other)]
        return _row_name(other), load_policy(other, other_names=RIVALS)
    check_augmentation(other)
    return own_name(other), partial(_own, other)


def _own(augmentation: Augmentation, schedule: Schedule, config: EvaluationConfig) -> Made:
    return config, (augmentation,)


def contenders(
    rows: Mapping[str, Schedule | Make],
    schedule: Schedule,
    config: EvaluationConfig,
    own_network: CustomNetwork | None = None,
    start: Start | None = None,
) -> tuple[Contender, ...]:
    """The rows with all that their trainings need. Raises SettingsError for one that does not go with the settings.

    Schedules, and what is made of one, have the spread of the settings, where these have one.
    """
    compared = respread(schedule, config.spread)
    return tuple(
        Contender(name, config, (ScheduleAugmentation(respread(row, config.spread)),), own_network, start)
        if isinstance(row, Schedule)
        else Contender(name, *row(compared, config), own_network, start)
        for name, row in rows.items()
    )


def _row_name(path_or_name: str | Path) -> str:
    """The file's name, or its run folder's for a policy.json."""
    path = Path(path_or_name)
    if path.is_dir():
        return path.resolve().name
    return path.resolve().parent.name if path.name == "policy.json" else path.stem
