"""What an algorithm is: its settings, how a search by it begins, and what it does in one training step."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

import pydantic
import torch
from pydantic import BeforeValidator, Field
from torch import Tensor

from hba.algorithms.start import Start, read_start
from hba.algorithms.state import Networks
from hba.algorithms.task import Task
from hba.algorithms.update_schedule import UpdateSchedule
from hba.config.training import CommonSearchConfig, NotNegative, Share
from hba.data.config import Size
from hba.errors import SettingsError
from hba.policy.space import SearchSpace
from hba.utils.settings import DefaultText, Settings

Init = Literal["fraction", "randaugment"]
Count = Literal["fixed", "searched"]
SpreadOver = Literal["none", "magnitudes", "all"]


class Algorithm(Settings):
    """A search algorithm. Its fields are its settings, with its own defaults; `begin` and `step` are the method.

    A class of your own is one of this kind: `hba.search(data, algorithm=Mine(strength=2))`. It may as well be a
    subclass of an algorithm that there is. Nothing has to be registered.
    """

    name: ClassVar[str]
    """In files, in Python and on the command line."""
    multi_label: ClassVar[bool] = False
    """Whether images may have several labels: loss and error are then hba.training.criterion's."""

    shares_batches: ClassVar[bool] = False
    """Whether several processes can share its batches: hba.distributed.collectives then tells it about the batch."""
    can_be_fast: ClassVar[bool] = False
    """Whether it goes with the setting `fast`: its network is an ordinary one."""
    tunes_training: ClassVar[bool] = False
    """Whether it moves regularizers that act inside the network or in the loss, so that their effect comes through the
    weights."""

    initial_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Where in its range every hyperparameter starts, if init is fraction."""
    init: Init = "fraction"
    """Where a search begins: with every hyperparameter at initial_fraction, or at RandAugment's policy. Who gives an
    initial_fraction alone means fraction."""
    init_from: Annotated[Start | None, BeforeValidator(read_start), DefaultText("none: as init says")] = None
    """Schedule at whose first row a search begins, in the place of init: a file, a run folder or a shipped name."""
    count: Count = "fixed"
    """How many operations an image gets at most: 0, 1 or 2 with 0.2, 0.3 and 0.5, or any distribution over 0 to 3, as
    far as there are slots."""
    train_steps: Size = 4
    """Training steps between policy steps (T_train)."""

    def begin(self, task: Task, networks: Networks) -> Any:
        """The state of a search before its first step: a SearchState, or one with more fields.

        A field keeps the kind of value that it begins with. Whatever hba.utils.snapshot can save may stand in one.
        """
        raise NotImplementedError

    def step(self, task: Task, state: Any) -> None:
        """One training step and the policy steps that follow it. They change the state in place.

        After it, state.lam is what the search stands at, and state.to_module() the network that belongs to it.
        """
        raise NotImplementedError

    def start(self, task: Task) -> Tensor:
        """Logits (n,) at which the search begins, as the settings say."""
        row = None if self.init_from is None else self.init_from.values
        return task.initial_lambda(self.initial_fraction, self.init, row)

    @property
    def update_schedule(self) -> UpdateSchedule:
        return UpdateSchedule(self.train_steps)

    def spread_now(self, task: Task, state: Any) -> float | list[float]:
        """Standard deviation in logits of what the search tries around state.lam; 0 where it tries nothing. One number,
        or one for each hyperparameter (n).
        """
        return 0.0

    def spread_columns(self, space: SearchSpace) -> Tensor:
        """By hyperparameter (n,), the share of that deviation that images differ by when the schedule is used."""
        return torch.zeros(space.n)

    @classmethod
    def of_preset(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Of a preset's values, which are HBA's, those that stand in the place of this algorithm's defaults."""
        return {name: value for name, value in values.items() if name in cls.model_fields}

    def resolved(self, batch_size: int) -> Self:
        """The same settings with what stands for a number beside a batch of training images written out."""
        return self

    def check(self, config: CommonSearchConfig) -> None:
        """Raise SettingsError where the settings of the search do not go with the algorithm's."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _mean_fraction(cls, given: Any) -> Any:
        if isinstance(given, dict) and "initial_fraction" in given and given.keys().isdisjoint(("init", "init_from")):
            return {**given, "init": "fraction"}
        return given

    @pydantic.model_validator(mode="after")
    def _check_start(self) -> Self:
        # A file names all settings, also those at their defaults.
        if self.initial_fraction != type(self).model_fields["initial_fraction"].default:
            self.check_fraction()
        if self.init != type(self).model_fields["init"].default:
            self.check_init()
        return self

    def check_init(self) -> None:
        """Raise SettingsError where init, which was given, has no effect."""
        if self.init_from is not None:
            raise SettingsError("init has no effect where init_from is given; omit one of them")

    def check_fraction(self) -> None:
        """Raise SettingsError where initial_fraction, which was given, has no effect."""
        if self.init_from is not None:
            raise SettingsError("initial_fraction has no effect where init_from is given; omit one of them")
        if self.init != "fraction":
            raise SettingsError(
                f"initial_fraction has no effect where init is {self.init}; set init to fraction, or omit "
                "initial_fraction"
            )


class Noisy(Algorithm):
    """An algorithm that tries out hyperparameters around those that it stands at."""

    sigma: NotNegative = 1.0
    """Standard deviation of the noise on lambda, in logits."""
    spread_over: SpreadOver = "none"
    """Which hyperparameters of operations keep that noise when the schedule is used: none, so that all images get the
    bare row, as in the paper; magnitudes; or all."""
    spread_share: Share = 1.0
    """Share of the noise's standard deviation that they keep; 1 for what the search has judged."""

    def spread_now(self, task: Task, state: Any) -> float | list[float]:
        return self.sigma

    def spread_columns(self, space: SearchSpace) -> Tensor:
        columns = torch.full((space.n,), self.spread_share if self.spread_over != "none" else 0.0)
        if self.spread_over == "magnitudes":
            columns[space.probability_columns(columns.device)] = 0
        columns[space.n_of_policy :] = 0
        return columns
