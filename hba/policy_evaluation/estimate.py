"""How long the trainings will take, from their first steps."""

import time
from collections.abc import Callable

WARM_UP_SECONDS = 2.0
"""Not counted: memory is run_lock, kernels are chosen, processes start."""
COUNTED_SECONDS = 3.0


class TimeEstimate:
    """Counts steps, and once, early on, tells the seconds that all n_steps will take at the rate of the first ones.

    Steps that are done at the same time in several processes count together.
    """

    def __init__(
        self, n_steps: int, tell: Callable[[float], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._n_steps, self._tell, self._clock = n_steps, tell, clock
        self._done = 0
        self._first_at: float | None = None
        self._counted_from: tuple[int, float] | None = None
        self._has_told = False

    def step_done(self) -> None:
        self._done += 1
        if self._has_told:
            return
        now = self._clock()
        if self._first_at is None:
            self._first_at = now
        elif self._counted_from is None:
            if now - self._first_at >= WARM_UP_SECONDS:
                self._counted_from = (self._done, now)
        elif now - self._counted_from[1] >= COUNTED_SECONDS:
            before, since = self._counted_from
            self._tell((now - since) / (self._done - before) * self._n_steps)
            self._has_told = True
