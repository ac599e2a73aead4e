"""Searches by candidates, and trainings of fresh networks with what they found and with what they must beat."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from common.settings import kept_settings
from common.tasks import SearchTask, TrainingTask

from hba.config.evaluation import EvaluationConfig
from hba.data import EvaluationData, SearchData
from hba.errors import SettingsError
from hba.policy_evaluation.contenders import RIVALS, contenders
from hba.policy_evaluation.rivals import middle
from hba.policy_search.config import SearchConfig
from hba.schedule.schedule import Schedule
from hba.training.augmentation import Augmentation, ScheduleAugmentation
from quality.candidates import CANDIDATES, DEFAULT, PAPER
from quality.problems import find_problem, plant

NONE, RANDOM, RANDAUGMENT = "none", "random", "randaugment"

RANGE = (NONE, RANDAUGMENT)
"""What a user has for nothing: how far apart these are says how much augmentation matters on a bed."""

LEFT_OUT: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "no-contrast": ("AutoContrast", "Equalize"),
        "no-translation": ("TranslateX", "TranslateY"),
        "no-rotation": ("Rotate", "ShearX", "ShearY"),
    }
)
"""Random policies without these operations, in whose place the others fire more often: what an operation is worth over
a whole training. None of those that do nothing at the middle of their range is among them.
"""
WITHOUT_SEARCH = (NONE, RANDOM, *LEFT_OUT)
"""What a training that is measured on validation images can have instead of a found schedule."""

OTHERS = tuple(name for name in RIVALS if name != "middle")
"""`middle` is a candidate here, the paper's algorithm from there."""
ROWS = (DEFAULT, *(name for name in CANDIDATES if name != DEFAULT), *OTHERS)
"""Of a verdict: the default search's schedule first, other candidates', and all that hba.evaluate knows by name."""
STANDARD_ROWS = (DEFAULT, PAPER, *OTHERS)
RIVAL_ROWS = {*WITHOUT_SEARCH, *OTHERS, *RANGE}
OF_DEFAULT = ("shuffled", "static", "final", "point")
"""Rivals that are made of what the default search found. The others stay as they are when the default is changed."""

OF_TRAINING = {*EvaluationConfig.model_fields, "space", "operations", "interpolation", "fill"}
"""Settings of a search that trainings without its schedule read."""
OF_START = {"init", "count", "sigma", "sigma_end", "spread_over", "spread_share"}
"""Those that decide where it begins, and with what spread: what `random` is."""
STARTS = ("random", "random-point")


@dataclass(frozen=True)
class PlantedTask(SearchTask):
    """A search whose validation images went through what a problem plants."""

    @property
    def data(self) -> SearchData:
        return plant(super().data, find_problem(self.further["problem"]), self.config.seed)


def planted(search: SearchTask, problem: str) -> PlantedTask:
    """The same search, on a problem by name and without a run folder."""
    operations = [{**asdict(one), "magnitude": one.magnitude and list(one.magnitude)} for one in find_problem(problem)]
    further = {**search.further, "problem": problem, "planted": operations}
    return PlantedTask(search.name, search.label, search.config, None, further, view=search.view)


@dataclass(frozen=True)
class RowTask(TrainingTask):
    """A training by a row: a candidate, with what its search of the same seed found, or a rival.

    search: the candidate's, for a rival the default's; training settings are those of it that apply. tested: on the
    test split, which nothing is chosen by; otherwise on the search's validation images.
    """

    tested: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """Of the search; of those of rivals that need none, only what the training reads."""
        needs_search = self.name in CANDIDATES or (self.tested and self.name in OF_DEFAULT)
        settings = kept_settings(self._searched)
        if needs_search:
            return settings
        read = OF_TRAINING | (OF_START if self.tested and self.name in STARTS else set())
        return {name: settings[name] for name in settings if name in read}

    @property
    def measured_on(self) -> str:
        return "test" if self.tested else "val"

    @property
    def data(self) -> EvaluationData:
        if self.tested:
            return super().data
        data = self._search.data
        return EvaluationData(data.name, data.class_names, data.train, data.val)

    def augmented(self) -> tuple[EvaluationConfig, Augmentation]:
        if self.name in CANDIDATES:
            return super().augmented()
        if self.tested or self.name in RANGE:
            # What a range is made of needs no search.
            schedule = self._random() if self.name in RANGE else self._search.schedule()
            (contender,) = contenders({self.name: RIVALS[self.name]}, schedule, self.config)
            return contender.config, contender.augmentation(self.seed)
        return self.config, ScheduleAugmentation(without(self._random(), LEFT_OUT.get(self.name, ())))

    def _random(self) -> Schedule:
        """In the middle of all ranges, without a spread, throughout."""
        space = self._searched.search_space()
        fill = self._searched.fill or self._search.data.train.mean_color()
        return middle(Schedule(space, space.decode(space.initial().double())[None].numpy(), fill))

    @property
    def _search(self) -> SearchTask:
        assert self.search is not None
        return self.search

    @property
    def _searched(self) -> SearchConfig:
        return self._search.config


def row_task(row: str, search: SearchTask, *, tested: bool, epochs: int | None = None) -> RowTask:
    """epochs: of the training; as the search without it."""
    searched = search.config
    # data is named, because the search may have been told it as a folder that has moved.
    alike = {name: getattr(searched, name) for name in ("data", "device", "train_size")}
    config = EvaluationConfig.like_search(searched.model_dump(), {**alike, "epochs": epochs or searched.epochs})
    of_row = {"training_images": searched.train_size} if tested else {"training_epochs": config.epochs}
    further = {**search.further, **of_row}
    return RowTask(row, search.label, config, searched.seed, search, further, view=search.view, tested=tested)


def without(schedule: Schedule, operations: Sequence[str]) -> Schedule:
    """The same where these operations never fire."""
    values = schedule.values.copy()
    for slot in schedule.space.slots:
        if slot.operation.name in operations:
            values[:, slot.probability] = 0.0
    return dataclasses.replace(schedule, values=values)


def rows_of(names: Sequence[str], config: EvaluationConfig) -> tuple[str, ...]:
    """The rows of these names, the default search first; without names the standard ones. Cutout is no other row where
    the baseline has it.
    """
    if unknown := set(names) - set(ROWS):
        raise SettingsError(f"unknown row {min(unknown)!r}; known: {', '.join(ROWS)}")
    rows = [row for row in ROWS if row in {*(names or STANDARD_ROWS), DEFAULT}]
    return tuple(row for row in rows if row != "cutout" or not config.baseline_augmentation().cutout_size)
