"""Notices early that trainings take longer than planned, so that the rest of a run can
be planned again.
"""

import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

from hba.policy_choice.plan import rounds

WATCHED_SHARE = 0.2
"""Share of the first trainings after which their time is known well enough."""
WATCHED_SECONDS = 2.0
"""Least time for that, in seconds."""
SECONDS_OF_START = 10.0
"""The same if several trainings run at a time, whose processes take seconds to start.
"""
TOLERATED = 1.1
"""How many times the time that is left the trainings may take."""


class TooSlow(Exception):
    """Trainings and what follows do not fit into the time. seconds: of a training."""

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
    times: list[float] = field(default_factory=list, init=False)

    def step_done(self) -> None:
        """Count a step. Raises TooSlow during the first trainings if they are slow."""
        now = self.clock()
        self.times.append(now)
        n_parallel = min(self.n_jobs, self.n_trainings)
        share = len(self.times) * self.n_trainings / (n_parallel * max(1, self.n_steps))
        least = WATCHED_SECONDS if n_parallel == 1 else SECONDS_OF_START
        if not WATCHED_SHARE <= share < 1 or now - self.times[0] < least:
            return
        # In the first half of this time, some of the processes may not have started.
        middle = (self.times[0] + now) / 2
        n_steps = len(self.times) - bisect_right(self.times, middle)
        seconds_of_step = (now - middle) * n_parallel / n_steps
        of_training = seconds_of_step * self.n_steps / self.n_trainings
        needed = of_training * (rounds(self.n_trainings, self.n_jobs) + self.following)
        if needed > TOLERATED * self.seconds_left:
            raise TooSlow(of_training)
