"""Searches of candidates, and trainings of fresh networks with their schedules and with
baselines.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from common.settings import kept_settings
from common.tasks import SearchTask, TrainingTask

from hba.config.evaluation import EvaluationConfig
from hba.data import EvaluationData, SearchData
from hba.errors import SettingsError
from hba.policy_evaluation.baselines import BASELINES, middle, row_configs
from hba.policy_search.config import SearchConfig
from hba.schedule.schedule import Schedule
from hba.training.augmentation import Augmentation
from quality.candidates import CANDIDATES, DEFAULT
from quality.problems import PROBLEMS, plant

RANGE = ("none", "randaugment")
"""Rows that need no search."""
FORMER_NAMES = {"start": "random"}
"""The names under which baselines were measured, by their names today."""
OTHERS = (
    *(FORMER_NAMES.get(name, name) for name in BASELINES if name != "middle"),
    "shuffled",
)
"""`middle` is a candidate here: the paper's algorithm started there. `shuffled` used to
be a baseline.
"""
ROWS = (DEFAULT, *(name for name in CANDIDATES if name != DEFAULT), *OTHERS)
"""Rows of a verdict: the default search's schedule, other candidates' schedules, all
baselines of hba.evaluate.
"""
OF_DEFAULT = ("shuffled", "static", "final", "point")
"""Baselines that are made from the schedule found. The others do not change when the
default changes.
"""
OF_TRAINING = {
    *EvaluationConfig.model_fields,
    "space",
    "operations",
    "interpolation",
    "fill",
}
"""Settings of a search that trainings without its schedule use."""
OF_START = {"init", "count", "sigma", "spread_over", "spread_share"}
"""Settings that decide where a search begins and with what spread; they define the
baseline `random`.
"""
STARTS = ("random",)


@dataclass(frozen=True)
class PlantedTask(SearchTask):
    """A search in which the operations of a problem were applied to the validation
    images.
    """

    @property
    def data(self) -> SearchData:
        return plant(super().data, PROBLEMS[self.further["problem"]], self.config.seed)


def planted(search: SearchTask, problem: str) -> PlantedTask:
    """The same search on a problem by name, without a run folder."""
    operations = [
        {
            **asdict(operation),
            "magnitude": operation.magnitude and list(operation.magnitude),
        }
        for operation in PROBLEMS[problem]
    ]
    details = {**search.further, "problem": problem, "planted": operations}
    return PlantedTask(
        search.name, search.label, search.config, None, details, view=search.view
    )


@dataclass(frozen=True)
class RowTask(TrainingTask):
    """The training of one row: a candidate, with the schedule of its search of the same
    seed, or a baseline.

    `search` is the candidate's search, or the default's for a baseline; its settings
    that apply to trainings are used.
    """

    tested: bool = False
    """Measure on the test split, which is not used for choices, instead of the search's
    validation images.
    """

    @property
    def settings(self) -> dict[str, Any]:
        """All settings of the search; for baselines that need no search, only those
        that the training uses.
        """
        settings = kept_settings(self._searched)
        if self.name in CANDIDATES or (self.tested and self.name in OF_DEFAULT):
            return settings
        read = OF_TRAINING | (
            OF_START if self.tested and self.name in STARTS else set()
        )
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
        # Rows of RANGE need no schedule and therefore no search.
        schedule = self._start() if self.name in RANGE else self._search.schedule()
        name = {former: name for name, former in FORMER_NAMES.items()}.get(
            self.name, self.name
        )
        (row,) = row_configs({self.name: BASELINES[name].make}, schedule, self.config)
        return row.config, row.augmentation

    def _start(self) -> Schedule:
        """Any schedule in the search space."""
        space = self._searched.search_space()
        fill = self._searched.fill or self._search.data.train.mean_color()
        return middle(
            Schedule(space, space.decode(space.initial().double())[None].numpy(), fill)
        )

    @property
    def _search(self) -> SearchTask:
        assert self.search is not None
        return self.search

    @property
    def _searched(self) -> SearchConfig:
        return self._search.config


def row_task(
    row: str, search: SearchTask, *, tested: bool, epochs: int | None = None
) -> RowTask:
    """Return the task of a row.

    Args:
        row: The name of the row.
        search: The candidate's search, or the default's for a baseline.
        tested: Measure on the test split instead of the search's validation images.
        epochs: Epochs of the training; as many as the search by default.
    """
    config = search.config
    # data is given by name, because the folder of the search may have moved.
    same = {name: getattr(config, name) for name in ("data", "device", "train_size")}
    training = EvaluationConfig.like_search(
        config.model_dump(), {**same, "epochs": epochs or config.epochs}
    )
    row_entry = (
        {"training_images": config.train_size}
        if tested
        else {"training_epochs": training.epochs}
    )
    details = {**search.further, **row_entry}
    return RowTask(
        row,
        search.label,
        training,
        config.seed,
        search,
        details,
        view=search.view,
        tested=tested,
    )


def rows_of(names: Sequence[str], config: EvaluationConfig) -> tuple[str, ...]:
    """These rows and the default search, in the order of ROWS; without `cutout` if the
    baseline augmentation has it.
    """
    if unknown := set(names) - set(ROWS):
        raise SettingsError(f"unknown row {min(unknown)!r}; known: {', '.join(ROWS)}")
    rows = [row for row in ROWS if row in {*names, DEFAULT}]
    return tuple(
        row
        for row in rows
        if row != "cutout" or not config.baseline_augmentation().cutout_size
    )
