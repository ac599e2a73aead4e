"""What an algorithm is: its settings, how a search by it begins, and what it does in one training step."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from hba.algorithms.networks import Networks
from hba.algorithms.problem import Problem
from hba.config.fields import NotNegative
from hba.config.search import CommonSearchConfig
from hba.data.config import Size
from hba.runtime.settings import Settings


@dataclass(frozen=True)
class Rhythm:
    """When policy steps come, and how far one goes.

    A policy step is a step of Adam on the hyperparameters, or the selection of a member from a population. in_a_row of
    them follow every train_steps training steps after the warm-up. stride: about the most by which one moves a logit; 0
    where nobody knows.
    """

    train_steps: int
    in_a_row: int = 1
    warm_up_epochs: int = 0
    stride: float = 0.0


class Algorithm(Settings):
    """A search algorithm. Its fields are its settings, with its own defaults; `begin` and `step` are the method.

    A class of your own is one of this kind: `hba.search(data, algorithm=Mine(strength=2))`. It may as well be a
    subclass of an algorithm that there is. Nothing has to be registered.
    """

    name: ClassVar[str]
    """In files, in Python and on the command line."""

    initial_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Where in its range every hyperparameter starts."""
    train_steps: Size = 4
    """Training steps between policy steps (T_train)."""

    def begin(self, problem: Problem, networks: Networks) -> Any:
        """The state of a search before its first step: a SearchState, or one with more fields.

        A field keeps the kind of value that it begins with. Whatever hba.runtime.snapshot can save may stand in one.
        """
        raise NotImplementedError

    def step(self, problem: Problem, state: Any) -> None:
        """One training step and the policy steps that follow it. They change the state in place.

        After it, state.lam is what the search stands at, and state.plain() the network that belongs to it.
        """
        raise NotImplementedError

    @property
    def rhythm(self) -> Rhythm:
        return Rhythm(self.train_steps)

    def check(self, config: CommonSearchConfig) -> None:
        """Raise SettingsError where the settings of the search do not go with the algorithm's."""


class Noisy(Algorithm):
    """An algorithm that tries out hyperparameters around those that it stands at."""

    sigma: NotNegative = 1.0
    """Standard deviation of the noise on lambda, in logits."""
