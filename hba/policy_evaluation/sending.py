"""A training on its way to another process, or to another machine, with all that is its user's own."""

from collections.abc import Iterator
from typing import Any

from hba.distributed.sending import packed, unpacked
from hba.operations import function_path
from hba.policy_evaluation.contenders import Contender
from hba.policy_evaluation.trainings import Training
from hba.regularization.groups import register_regularizer, registered_regularizers
from hba.regularization.regularizer import Regularizer
from hba.schedule.schedule import Schedule
from hba.training.checkpoint import TrainCheckpoint


def packed_training(training: Training, saves: TrainCheckpoint, remedy: str) -> bytes:
    """remedy: what to do instead, said by the SettingsError where it cannot be sent."""
    contender = training.contender
    parts = (training, saves, _own_regularizers(contender))
    return packed(parts, modules_of(contender), f"the row {contender.name}", remedy)


def unpacked_training(content: bytes) -> tuple[Training, TrainCheckpoint]:
    """What was packed; its regularizers are known from here on."""
    training, saves, regularizers = unpacked(content)
    for regularizer in regularizers:
        register_regularizer(regularizer)
    return training, saves


def modules_of(contender: Contender) -> set[str]:
    """The names of those that define what the row trains with."""
    names = {
        *(name for schedule in _schedules(contender) for name in _modules_of_operations(schedule)),
        *(
            getattr(function, "__module__", "")
            for one in _own_regularizers(contender)
            for function in (one.function, one.fixed)
        ),
        *(type(augmentation).__module__ for augmentation in contender.augmentations),
    }
    if contender.own_network is not None:
        given: Any = contender.own_network.given
        names |= {type(given).__module__, getattr(given, "__module__", "")}
    return names


def _schedules(contender: Contender) -> list[Schedule]:
    found = (getattr(augmentation, "schedule", None) for augmentation in contender.augmentations)
    return [schedule for schedule in found if isinstance(schedule, Schedule)]


def _modules_of_operations(schedule: Schedule) -> Iterator[str]:
    for operation in schedule.space.operations:
        path = function_path(operation)
        if path is not None:
            yield path.partition(":")[0]


def _own_regularizers(contender: Contender) -> tuple[Regularizer, ...]:
    """Those of the user's own that the row's schedule has."""
    groups = {one.group for schedule in _schedules(contender) for one in schedule.space.regularizers}
    return tuple(one for one in registered_regularizers() if one.name in groups)
