"""Whether to stop, agreed by all processes: they take every step together, or wait for each other for ever."""

import time
from collections.abc import Callable

from hba.parallel.processes import largest
from hba.parallel.world import size

EVERY_SECONDS = 1.0
"""How long a stop is waited for, about. To ask the others costs as much as a small step."""


class Agreement:
    """Asked before every step. wanted: whether this process wants to stop; one of them is enough."""

    def __init__(self, wanted: Callable[[], bool]) -> None:
        self.wanted = wanted
        self.steps_left = 0
        self.steps_between = 0
        self.asked_at = time.monotonic()

    def reached(self) -> bool:
        if size() == 1:
            return self.wanted()
        if self.steps_left:
            self.steps_left -= 1
            return False
        now = time.monotonic()
        microseconds = round(1e6 * (now - self.asked_at) / max(1, self.steps_between))
        # The slowest process decides for all, so that they ask again before the same step.
        stop, per_step = largest(self.wanted(), microseconds)
        # A step may take longer than those before, and before the first nothing is known.
        self.steps_between = max(1, min(2 * self.steps_between, int(1e6 * EVERY_SECONDS / max(1, per_step))))
        self.steps_left, self.asked_at = self.steps_between - 1, now
        return bool(stop)
