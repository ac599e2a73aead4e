"""Notices early that trainings take longer than planned, so that the rest of a run can be planned again."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from hba.policy_choice.plan import rounds

WATCHED_SHARE = 0.2
"""Share of the first trainings after which their time is known well enough."""
WATCHED_SECONDS = 2.0
"""Least time for that, in seconds."""
TOLERATED = 1.1
"""How many times the time that is left the trainings may take."""


class TooSlow(Exception):
    """Trainings and what follows them do not fit into the time. seconds: of one of these trainings."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


@dataclass
class Pace:
    """How fast the trainings of a phase are, n_jobs at a time.

    n_trainings: how many there are.
    n_steps: of all of them.
    n_jobs: how many run at a time.
    seconds_left: time for them and for what follows.
    following: time of what follows, in multiples of one of these trainings.
    clock: returns seconds.
    """

    n_trainings: int
    n_steps: int
    n_jobs: int
    seconds_left: float
    following: float
    clock: Callable[[], float] = time.monotonic
    n_done: int = field(default=0, init=False)
    began: float = field(default=0.0, init=False)

    def step_done(self) -> None:
        """Count a step. Raises TooSlow while the first trainings run, if they are too slow."""
        if self.n_done == 0:
            # The start of processes is not a part of the first step.
            self.began = self.clock()
        self.n_done += 1
        n_parallel = min(self.n_jobs, self.n_trainings)
        share = self.n_done * self.n_trainings / (n_parallel * max(1, self.n_steps))
        seconds = self.clock() - self.began
        if not WATCHED_SHARE <= share < 1 or seconds < WATCHED_SECONDS:
            return
        of_training = seconds / share
        needed = of_training * (rounds(self.n_trainings, self.n_jobs) + self.following)
        if needed > TOLERATED * self.seconds_left:
            raise TooSlow(of_training)
