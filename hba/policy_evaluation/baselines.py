"""The rows of an evaluation: the schedule, and the baselines to compare it with."""

import copy
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hba.config.evaluation import EvaluationConfig
from hba.config.training import SGD, SGDS
from hba.data.images import EvaluationData, Images
from hba.data.loader import as_floats
from hba.errors import SettingsError
from hba.models import Start
from hba.policy_evaluation.leakage import settings_of
from hba.regularization.groups import DROPOUT, WEIGHT_DECAY, check_dropouts
from hba.schedule.library import load_policy
from hba.schedule.recipes import RECIPE, RECIPES, of_torchvision
from hba.schedule.schedule import Schedule
from hba.schedule.summary import start_logits, task_of_schedule, used_operations
from hba.tasks import ImageTask, task_of
from hba.training.augmentation import Augmentation, ScheduleAugmentation
from hba.training.custom_network import CustomNetwork
from hba.training.mixing import check_can_augment
from hba.training.trainer import network_of
from hba.utils.devices import exact_device
from hba.utils.seeding import default_generators
from hba.utils.settings import words

NONE = "none"
AGAINST = (NONE, "randaugment")
"""Default baselines of an evaluation, of which a recipe under evaluation is left out.
"""
SEEDS = "seeds of an evaluation"
"""Part of every definition, so that results of trainings with the seeds of searches
cannot be resumed.
"""

Baseline = str | Path | Schedule | Augmentation
"""A name in BASELINES, a schedule's file or shipped name, a schedule, or the user's own
augmentation.
"""


@dataclass(frozen=True)
class RowConfig:
    """A row's trainings. own_network: replaces the setting `model`. start: pretrained
    weights of the model.
    """

    name: str
    config: EvaluationConfig
    augmentation: Augmentation
    own_network: CustomNetwork | None = None
    start: Start | None = None

    @property
    def definition(self) -> str:
        """A hash of everything in which this row differs from other rows."""
        cutout_size = str(self.config.baseline_augmentation().cutout_size)
        parts = [SEEDS, cutout_size, self.augmentation.definition]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


Made = tuple[EvaluationConfig, Augmentation]
Make = Callable[[Schedule, EvaluationConfig], Made]
"""Maps the schedule under evaluation and its settings to the settings and the
augmentation of a row.
"""


def _cutout(schedule: Schedule, config: EvaluationConfig) -> Made:
    """The dataset's own Cutout, or one of half the image's side for data without it."""
    if present := config.baseline_augmentation().cutout_size:
        problem = (
            f"the baseline augmentation already has a Cutout of {present} pixels, so"
            " cutout would equal none"
        )
        raise SettingsError(f"{problem}; omit cutout, or set cutout_size to 0")
    size = config.model_copy(
        update={"cutout_size": None}
    ).baseline_augmentation().cutout_size or round(config.side / 2)
    return config.model_copy(update={"cutout_size": size}), ScheduleAugmentation(None)


def _auto_augment(schedule: Schedule, config: EvaluationConfig) -> Made:
    policies = {
        "cifar10": "cifar10",
        "cifar100": "cifar10",
        "svhn": "svhn",
        "svhn-full": "svhn",
    }
    policy = policies.get(config.baseline_like or config.data, "imagenet")
    return config, ScheduleAugmentation(
        of_torchvision(f"autoaugment-{policy}", "autoaugment")
    )


def start(schedule: Schedule) -> Schedule:
    """The initial policy of this schedule's search, in every epoch, with its mean
    spread; `middle` if it is unknown.
    """
    logits = start_logits(schedule)
    return middle(schedule) if logits is None else _of_logits(schedule, logits)


def middle(schedule: Schedule) -> Schedule:
    """In every epoch, all probabilities are 0.5 and all magnitudes in the middle of
    their range, with the mean spread.

    There, Brightness, Color, Contrast and Sharpness have no direction. A searched K has
    the probabilities of the space.
    """
    return _of_logits(schedule, schedule.space.initial(0.5))


def _of_logits(schedule: Schedule, logits: Tensor) -> Schedule:
    values = schedule.space.decode(logits.double())[None].numpy()
    return replace(schedule, values=values, spread=schedule.averaged().spread)


def respread(schedule: Schedule, spread: float | None) -> Schedule:
    """The schedule with another spread, of magnitudes alone if only they have one; None
    changes nothing.
    """
    if spread is None:
        return schedule
    of_probabilities = schedule.spread[
        :, schedule.space.probability_columns(torch.device("cpu")).numpy()
    ]
    return schedule.with_spread(
        spread, probabilities=bool(of_probabilities.any() or not schedule.spread.any())
    )


def _always(augmentation: Augmentation) -> Make:
    return lambda schedule, config: (config, augmentation)


def _recipe(make: Callable[[], Schedule]) -> Make:
    return lambda schedule, config: (config, ScheduleAugmentation(make()))


def _of_schedule(change: Callable[[Schedule], Schedule]) -> Make:
    """The recipe `none`, changed or not, trains like the baseline `none`: it draws no
    random numbers.
    """

    def made(schedule: Schedule, config: EvaluationConfig) -> Made:
        changed = change(schedule)
        is_nothing = RECIPE in changed.provenance and not used_operations(changed)
        return config, ScheduleAugmentation(None if is_nothing else changed)

    return made


class NamedBaseline(NamedTuple):
    """A baseline with a name. text: a description, in which SCHEDULE stands for the
    first row's schedule.
    """

    make: Make
    text: str


_BASELINES: Mapping[str, tuple[Make, str]] = {
    NONE: (_always(ScheduleAugmentation(None)), "the baseline augmentation alone"),
    "cutout": (
        _cutout,
        (
            "the baseline augmentation and Cutout, of half the image's side or as the"
            " dataset has it"
        ),
    ),
    "start": (
        _of_schedule(start),
        "what the search of SCHEDULE started from, by default RandAugment's policy",
    ),
    "middle": (
        _of_schedule(middle),
        "all probabilities 0.5, all magnitudes in the middle of their range",
    ),
    "static": (
        _of_schedule(Schedule.averaged),
        "the mean of SCHEDULE over its epochs, in every epoch",
    ),
    "final": (
        _of_schedule(lambda schedule: schedule.only(schedule.epochs - 1)),
        "the last epoch, in every epoch",
    ),
    "only-augmentation": (
        _of_schedule(Schedule.without_regularizers),
        "SCHEDULE without its regularizers",
    ),
    "only-regularization": (
        _of_schedule(Schedule.without_operations),
        "the regularizers of SCHEDULE alone",
    ),
    "point": (
        _of_schedule(lambda schedule: schedule.with_spread(0.0)),
        "SCHEDULE without its spread",
    ),
    **{
        name: (_recipe(one.make), one.text)
        for name, one in RECIPES.items()
        if name != NONE
    },
    "autoaugment": (
        _auto_augment,
        "AutoAugment, with torchvision's policy for the dataset",
    ),
}
BASELINES = MappingProxyType(
    {name: NamedBaseline(*made) for name, made in _BASELINES.items()}
)
"""By name. A name takes precedence over a file with this name."""


def named_rows(
    schedule: Schedule | str | Path, against: str | Sequence[Baseline]
) -> dict[str, Schedule | Make]:
    """The schedule, or the function that makes the row, of each row by name; the
    schedule under evaluation is first.

    Raises SettingsError for two rows with one name, for a schedule of another task, and
    for anything else.
    """
    others = words(against)
    if not isinstance(others, Iterable):
        raise SettingsError(f"against must be a list, got {others!r}")
    first = (
        ("schedule", schedule)
        if isinstance(schedule, Schedule)
        else (_row_name(schedule), load_policy(schedule))
    )
    if against is AGAINST:
        others = [name for name in AGAINST if name != first[1].provenance.get(RECIPE)]
    rows: dict[str, Schedule | Make] = {}
    for name, row in (
        first,
        *(_named_row(other, number) for number, other in enumerate(others, start=2)),
    ):
        if name in rows:
            raise SettingsError(
                f"two rows would be called {name!r}; give each its own file name or"
                " `name`"
            )
        if isinstance(row, Schedule):
            _check_is_for_images(name, row)
        rows[name] = row
    return rows


def _check_is_for_images(name: str, schedule: Schedule) -> None:
    task = task_of_schedule(schedule)
    if not isinstance(task, ImageTask):
        raise SettingsError(
            f"the row {name} is for the task {task.name}, not for images; evaluate it"
            f" with hba {task.evaluate_command}"
        )


def _named_row(other: Baseline, number: int) -> tuple[str, Schedule | Make]:
    """Name and content of a row. number: of the row, counted from 1."""
    if isinstance(other, Schedule):
        return f"schedule {number}", other
    if isinstance(other, str | Path):
        if other in BASELINES:
            return str(other), BASELINES[str(other)].make
        return _row_name(other), load_policy(other, other_names=BASELINES)
    is_complete = isinstance(getattr(other, "definition", None), str) and callable(
        getattr(other, "by_epoch", None)
    )
    if isinstance(other, type) or not is_complete:
        raise SettingsError(
            "against must contain names, schedule files, schedules, or objects with a"
            " text `definition` and a function `by_epoch` (see hba.Augmentation), got"
            f" {other!r}"
        )
    return getattr(other, "name", None) or type(other).__name__, _always(other)


def _row_name(path_or_name: str | Path) -> str:
    """The name of the file, or of its run folder for a policy.json."""
    path = Path(path_or_name)
    folder = path if path.is_dir() else path.parent
    return (
        folder.resolve().name
        if path.is_dir() or path.name == "policy.json"
        else path.stem
    )


def row_configs(
    rows: Mapping[str, Schedule | Make],
    schedule: Schedule,
    config: EvaluationConfig,
    own_network: CustomNetwork | None = None,
    start: Start | None = None,
) -> tuple[RowConfig, ...]:
    """The rows with everything that their trainings need. Raises HbaError for rows that
    schedule or settings exclude.

    The setting spread applies to schedules, and to baselines made from one.
    """
    configs = []
    for name, row in rows.items():
        make = _of_schedule(lambda main: main) if isinstance(row, Schedule) else row
        compared = respread(
            row if isinstance(row, Schedule) else schedule, config.spread
        )
        row_config, augmentation = make(compared, config)
        configs.append(RowConfig(name, row_config, augmentation, own_network, start))
    return tuple(configs)


def check_rows(rows: Sequence[RowConfig], data: EvaluationData) -> None:
    """Raise SettingsError for a row that cannot train on these images, with this
    network or with this optimizer.
    """
    task = task_of(data.train.labels)
    for row in rows:
        try_out(row.augmentation, data.train, row.config.epochs)
        schedule = getattr(row.augmentation, "schedule", None)
        if task.has_masks and not isinstance(row.augmentation, ScheduleAugmentation):
            raise SettingsError(
                f"{row.name} takes images only, but masks must move with them; give a"
                " schedule or a recipe"
            )
        if not isinstance(schedule, Schedule):
            continue
        check_can_augment(schedule.space, task, row.name)
        names = schedule.space.names
        if WEIGHT_DECAY in names and row.config.optimizer not in SGDS:
            problem = (
                f"the weight decay of {row.name} needs the optimizer {SGD}, got"
                f" {row.config.optimizer}"
            )
            raise SettingsError(
                f"{problem}; train with {SGD}, or use schedule.without_regularizers()"
                " in Python"
            )
        if rates := [
            name.removeprefix(f"{DROPOUT}.")
            for name in names
            if name.startswith(f"{DROPOUT}.")
        ]:
            network = network_of(row.config, data, 0, row.own_network, row.start)
            # The user's own search space may leave out some dropouts of the network.
            check_dropouts(
                network,
                rates,
                may_be_some=settings_of(schedule).get("space", "") is None,
            )


def try_out(augmentation: Augmentation, train: Images, epochs: int) -> None:
    """Apply a copy of the augmentation to the first two training images, as in the
    first and in the last epoch.

    Raises SettingsError if the result is no batch of new images in [0, 1]. Exceptions
    in the user's code are not caught. PyTorch's default generators do not change.
    """
    n = min(2, len(train))
    (levels,) = [
        images for images, _ in train.batches(torch.arange(n, device=train.device), n)
    ]
    images = as_floats(levels)
    before = images.clone()
    with default_generators(train.device):
        functions = copy.deepcopy(augmentation).by_epoch(epochs, train)
        for function in (*functions[:1], *functions[-1:]):
            result: Any = function(
                images, torch.Generator(exact_device(train.device)).manual_seed(0)
            )
            is_batch = isinstance(result, torch.Tensor) and (
                result.shape,
                result.dtype,
            ) == (before.shape, before.dtype)
            if not (
                is_batch
                and torch.equal(images, before)
                and bool(((result >= 0) & (result <= 1)).all())
            ):
                raise SettingsError(
                    f"{type(augmentation).__name__} must return new images,"
                    f" {before.dtype} {tuple(before.shape)} in [0, 1] (.clamp(0, 1)),"
                    " and must not change its input (.clone())"
                )
