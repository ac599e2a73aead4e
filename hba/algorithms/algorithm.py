"""The interface of search algorithms: their settings, how a search begins, and one
training step.
"""

import dataclasses
from collections.abc import Set
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, Self

import numpy as np
import pydantic
import torch
from pydantic import BeforeValidator, Field
from torch import Tensor
from typing_extensions import TypeVar

from hba.algorithms.problem import SearchProblem
from hba.algorithms.state import Networks, SearchState
from hba.algorithms.update_schedule import UpdateSchedule
from hba.config.training import CommonSearchConfig, NotNegative, Share
from hba.data.config import Size
from hba.errors import SettingsError
from hba.policy.space import SearchSpace
from hba.policy.spaces import of_row, randaugment, started
from hba.schedule.library import load_policy
from hba.schedule.schedule import Schedule
from hba.utils.settings import DefaultText, Settings
from hba.utils.text import first_of

ConfigT = TypeVar("ConfigT", bound=CommonSearchConfig)
StateT = TypeVar("StateT", bound=SearchState, default=Any)
ProblemT = TypeVar("ProblemT", bound=SearchProblem, default=Any)


class InitialRow(Settings):
    """The value of init_from. A resumed search does not read the schedule again."""

    schedule: str
    """Name of the schedule."""
    values: Annotated[
        dict[str, Annotated[float, Field(allow_inf_nan=False)]], Field(min_length=1)
    ]
    """Its first policy in natural units, by hyperparameter."""

    def __str__(self) -> str:
        return self.schedule


def read_start(source: Any) -> Any:
    """Read the first policy of a schedule; keep what is no schedule.

    Args:
        source: A schedule, its file, a run folder, a recipe or a shipped policy; or
            anything else.

    Raises:
        ScheduleError: If there is no such schedule.
    """
    if isinstance(source, Schedule):
        return InitialRow(schedule="a schedule in memory", values=first_row(source))
    if isinstance(source, str | Path):
        return InitialRow(schedule=str(source), values=first_row(load_policy(source)))
    return source


def first_row(schedule: Schedule) -> dict[str, float]:
    """The first policy of a schedule, by hyperparameter, including the probabilities of
    K if they are not searched.
    """
    space = schedule.space
    row = dict(zip(space.names, schedule.values[0].tolist(), strict=True))
    if space.max_count and not space.searches_count:
        counted = dataclasses.replace(space, searches_count=True)
        columns = counted.count_columns
        row |= dict(
            zip(
                counted.names[columns],
                counted.initial()[columns].sigmoid().tolist(),
                strict=True,
            )
        )
    return row


Init = Literal["fraction", "randaugment"]
Count = Literal["fixed", "searched"]
SpreadOver = Literal["none", "magnitudes", "all"]


class Algorithm(Settings, Generic[StateT, ProblemT]):
    """Base class of search algorithms. Its fields are the settings; `begin` and `step`
    define the method. For a type checker, `Algorithm[MyState, ImageProblem]` names the
    classes of the state and of the problem.

    To use your own, derive a class from this one or from an existing algorithm, and
    pass an instance: `hba.search(data, algorithm=Mine(strength=2))`. Nothing has to be
    registered.
    """

    name: ClassVar[str]
    """Its name in files, in Python and on the command line."""
    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    """Names of the tasks that it is for, in `hba.tasks.TASKS`."""
    can_be_fast: ClassVar[bool] = False
    """Whether it supports the setting `fast`, which needs an algorithm that trains an
    ordinary network.
    """
    can_mix: ClassVar[bool] = False
    """Whether it can search operations that mix images, such as Mixup. The space leaves
    them out for all others.
    """
    tunes_training: ClassVar[bool] = False
    """Whether it can tune regularizers that act through the weights: inside the network
    or in the loss.
    """
    has_parallel_parts: ClassVar[bool] = False
    """Whether parts of a search can run in parallel, each on a copy of the state."""
    default_space: ClassVar[str] = "hba"
    """The search space, if the user names none."""
    idle: ClassVar[tuple[str, ...]] = ()
    """Settings below that have no effect on it. Giving one raises an error."""
    of_operations: ClassVar[tuple[str, ...]] = (
        "init",
        "initial_fraction",
        "init_from",
        "count",
        "spread_over",
        "spread_share",
    )
    """Settings that have no effect on a task that has no operations."""
    has_presets: ClassVar[bool] = True
    """Whether a preset, which is made for HBA, replaces its defaults."""

    initial_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Place in its range at which every hyperparameter starts, if init is fraction."""
    init: Init = "fraction"
    """Where a search begins: with every hyperparameter at initial_fraction, or at
    RandAugment's policy. If you give only initial_fraction, init is fraction.
    """
    init_from: Annotated[
        InitialRow | None,
        BeforeValidator(read_start),
        DefaultText("none: as init says"),
    ] = None
    """Schedule at whose first policy a search begins, instead of init: a file, a run
    folder, a recipe or a shipped policy.
    """
    count: Count = "fixed"
    """How many operations an image gets. fixed: 0, 1 or 2 with probability 0.2, 0.3,
    0.5. searched: any distribution over 0 to 3.
    """
    train_steps: Size = 4
    """Training steps between policy steps (T_train)."""
    sigma: NotNegative = 1.0
    """Standard deviation of the noise on lambda, in logits."""
    spread_over: SpreadOver = "none"
    """Hyperparameters of operations that keep this noise when you use the schedule:
    none, as in the paper; magnitudes; or all.
    """
    spread_share: Share = 1.0
    """Share of the noise's standard deviation that they keep. 1 keeps the noise that
    the search used.
    """

    def begin(self, problem: ProblemT, networks: Networks) -> StateT:
        """Return the state of a search before its first step.

        Fields of the state must have types that hba.utils.snapshot can save, and must
        not change their type.

        Args:
            problem: The problem of the search.
            networks: Makes the initial networks.

        Returns:
            The state.
        """
        raise NotImplementedError

    def step(self, problem: ProblemT, state: StateT) -> None:
        """Make one training step and the policy steps that follow it.

        A training step ends with a step of state.learner.schedule. state.graphs runs
        steps of tensors as CUDA graphs. Afterwards, state.lam is the current lambda,
        and state.to_module() returns the network for it.

        Args:
            problem: The problem of the search.
            state: The state, which is changed in place.
        """
        raise NotImplementedError

    # A search whose parts can run in parallel

    def most_parallel_parts(self, space: SearchSpace) -> int:
        """The largest number of parts that can ever run at the same time."""
        return 1

    def parallel_parts(self, problem: ProblemT, state: StateT) -> list[int]:
        """Numbers of the parts that can run now, in any order; empty if the next step
        has to be made by `step`.
        """
        return []

    def start_part(self, problem: ProblemT, state: StateT, part: int) -> None:
        """Go to the first step of a part, unless the state is inside of it."""
        raise NotImplementedError

    def result_of_part(self, state: StateT, part: int) -> Any:
        """What a part has found, as a value that can be pickled; None until it ends."""
        raise NotImplementedError

    def end_part(
        self, problem: ProblemT, state: StateT, part: int, result: Any
    ) -> None:
        """Take over the result of a part that ran on a copy of the state."""
        raise NotImplementedError

    # The time of a search

    def cost(self, n_jobs: int = 1) -> float:
        """Approximate time of a search, in whole trainings, as measured in
        docs/settings.md.

        Args:
            n_jobs: How many parts run at a time, if it has parallel parts.
        """
        return 4.0

    def config_for_timing(self, config: ConfigT) -> ConfigT:
        """Settings of a search whose first steps take as long as later ones."""
        return config

    def steps_for_timing(self, space: SearchSpace) -> int:
        """The number of steps after which kinds of steps repeat."""
        return self.update_schedule.train_steps

    def prepare_timed_step(self, problem: ProblemT, state: StateT, number: int) -> None:
        """Prepare the state for the timed step of this number, from 0."""

    @classmethod
    def settings_in_auto(cls, budget_seconds: float, given: Set[str]) -> dict[str, Any]:
        """Settings of this algorithm in a run of `hba auto`, unless the user gives
        them.

        Args:
            budget_seconds: The time of the run.
            given: Names of the settings that the user gives.
        """
        return {}

    # What all algorithms share

    def start(self, problem: SearchProblem) -> Tensor:
        """Logits (n,), on the device, at which the search begins.

        They are given by init_from, init and initial_fraction. The search's setting
        `start` replaces those of the operations that it names.
        """
        if self.init_from is not None:
            lam = of_row(problem.space, self.init_from.values)
        else:
            lam = (
                randaugment(problem.space)
                if self.init == "randaugment"
                else problem.space.initial(self.initial_fraction)
            )
        if problem.space.operations:
            lam = started(problem.space, lam, problem.config.start)
        return lam.to(problem.device, torch.get_default_dtype())

    @property
    def update_schedule(self) -> UpdateSchedule:
        return UpdateSchedule(self.train_steps)

    def sigma_now(self, state: StateT) -> float | Tensor:
        """Standard deviation of the noise on state.lam, in logits: a number or (n,)."""
        return self.sigma

    def spread_columns(self, space: SearchSpace) -> Tensor:
        """Share (n,) of that standard deviation that the schedule keeps when used."""
        columns = torch.full(
            (space.n,), self.spread_share if self.spread_over != "none" else 0.0
        )
        if self.spread_over == "magnitudes":
            columns[space.probability_columns(columns.device)] = 0
        columns[space.n_of_policy :] = 0
        return columns

    def leg_epochs(
        self, config: CommonSearchConfig, space: SearchSpace
    ) -> tuple[tuple[str, int], ...]:
        """Name and epochs of each part; empty if it is one training of `epochs`."""
        return ()

    def total_epochs(self, config: CommonSearchConfig, space: SearchSpace) -> int:
        """Number of epochs of the search; the setting `epochs` is the length of the
        training that it is for.
        """
        return (
            sum(epochs for _, epochs in self.leg_epochs(config, space)) or config.epochs
        )

    def epochs_of_schedule(
        self, rows: np.ndarray, config: CommonSearchConfig, space: SearchSpace
    ) -> list[int]:
        """Numbers, from 0, of the finished epochs that form the schedule.

        Args:
            rows: Values of all epochs (epochs, n).
            config: Settings of the search.
            space: The search space.
        """
        return [*range(len(rows))]

    def plan_note(
        self, config: CommonSearchConfig, space: SearchSpace, steps_per_epoch: int
    ) -> str | None:
        """A note on what the search will do.

        By default, it lists operations of init_from that the space lacks.
        """
        row = {} if self.init_from is None else self.init_from.values
        used = {
            name.partition(".")[0]
            for name, value in row.items()
            if name.endswith(".probability") and value > 0
        }
        if left_out := sorted(
            used - {"count", *(operation.name for operation in space.operations)}
        ):
            return (
                "The search starts without operations that its space lacks:"
                f" {first_of(left_out, 8)}."
            )
        return None

    def space_of_schedule(self, problem: ProblemT, state: StateT) -> SearchSpace:
        """The space of the schedule: that of the search, perhaps with symmetries that
        hold only for some classes.
        """
        return problem.space

    def findings(self, problem: ProblemT, state: StateT) -> dict[str, Any]:
        """Measurements of the search, as JSON, for the provenance of the schedule."""
        return {}

    def resolved(self, batch_size: int) -> Self:
        """The same settings, with numbers for values that depend on batch size."""
        return self

    def check(self, config: CommonSearchConfig) -> None:
        """Raise SettingsError if the settings of the search contradict those of the
        algorithm.
        """

    @pydantic.model_validator(mode="before")
    @classmethod
    def _imply_fraction(cls, settings: Any) -> Any:
        if (
            isinstance(settings, dict)
            and "initial_fraction" in settings
            and settings.keys().isdisjoint(("init", "init_from"))
        ):
            return {**settings, "init": "fraction"}
        return settings

    @pydantic.model_validator(mode="after")
    def _check_start(self) -> Self:
        idle = []
        if self.init_from is not None:
            idle.append("init")
        if self.init_from is not None or self.init != "fraction":
            idle.append("initial_fraction")
        for name in idle:
            # A file contains all settings, including those at their defaults.
            if getattr(self, name) != type(self).model_fields[name].default:
                start = self.init_from or self.init
                raise SettingsError(
                    f"{name} has no effect on a search that begins at {start}; omit"
                    f" {name}"
                )
        return self
