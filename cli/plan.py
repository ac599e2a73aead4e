"""What `hba search` says before it begins: what it does with which images, and how long that will take."""

import time
from collections.abc import Callable

from hba.policy_search.plan import SearchPlan
from hba.utils.text import counted, first_of

from .wording import class_words, left_out_words, minutes_words

SHOWN_REGULARIZERS = 8
LEAST_SECONDS = 5.0
"""Of steps that are timed before the whole is estimated."""


def plan_lines(plan: SearchPlan) -> list[str]:
    """The images, the network and what it is trained on, the search's length, and the notes."""
    threads = f" ({counted(plan.threads, 'thread')})" if plan.device == "cpu" else ""
    shared = f", shared by {plan.processes} processes" if plan.processes > 1 else ""
    done = f" ({plan.epochs_done} done)" if plan.epochs_done else ""
    where = f"; in {plan.folder}" if plan.folder is not None else ""
    probes = f", {counted(plan.probes, 'probe')}" if plan.probes else ""
    return [
        f"{plan.train_images:,} training and {plan.val_images:,} validation images of {class_words(plan.class_names)}"
        f"{_kept_for_test(plan)}{left_out_words(plan.left_out, plan.folder)}",
        f"{plan.model}, {plan.n_parameters:,} parameters, images of {plan.image_size}x{plan.image_size}, on "
        f"{plan.device}{threads}{shared}{where}",
        f"{counted(plan.epochs, 'epoch')}{done}, each of {counted(plan.steps_per_epoch, 'step')} on {plan.batch_size} "
        f"images; {counted(plan.policy_steps, 'policy step')}{probes}",
        *_tuned(plan),
        *plan.notes,
    ]


def _tuned(plan: SearchPlan) -> list[str]:
    """What is tuned, where that is more than operations."""
    if not plan.regularizers:
        return []
    regularizers = first_of([f"{name} {value:.3g}" for name, value in plan.regularizers.items()], SHOWN_REGULARIZERS)
    operations = [counted(len(plan.operations), "operation")] if plan.operations else []
    return [f"tuned: {'; '.join([*operations, regularizers])}"]


def _kept_for_test(plan: SearchPlan) -> str:
    if plan.test_images is None:
        return ""
    if plan.test_images:
        return f"; {plan.test_images:,} test images are kept for hba evaluate"
    return f"; the test images of {plan.data} are kept for hba evaluate, unopened"


class Estimate:
    """How long a search will take, said once.

    Timed are training steps before the first policy step where there are enough of them: what policy steps will add is
    counted. Else timed are whole rounds of training steps and the policy steps that follow them, from the first policy
    step on. The first training steps are slower, because everything is done for the first time.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._plan: SearchPlan | None = None
        self._from: int | None = None
        self._begun = 0.0

    def begin(self, plan: SearchPlan) -> None:
        self._plan = plan

    def step_done(self, step: int) -> str | None:
        """`About 12 minutes to go.` once that is known; None before, and ever after."""
        plan = self._plan
        if plan is None:
            return None
        first = plan.first_policy_step
        if step == first or self._from is None:
            self._from = first if plan.round_cost is None else min(step + plan.train_steps, first)
        if step < self._from or (step > first and (step - first) % plan.train_steps):
            return None
        now = self._clock()
        if step == self._from:
            self._begun = now
        if now - self._begun < LEAST_SECONDS:
            return None
        self._plan = None
        total = plan.epochs * plan.steps_per_epoch
        seconds = (now - self._begun) * _cost(plan, step, total) / _cost(plan, self._from, step)
        return f"{minutes_words(seconds / 60)} to go." if step < total else None


def _cost(plan: SearchPlan, after: int, until: int) -> float:
    """Of the training steps from one to another and of the policy steps that follow them, in training steps."""
    begun, ended = (max(0, (step - plan.first_policy_step) // plan.train_steps + 1) for step in (after, until))
    return until - after + (ended - begun) * (plan.round_cost or 0.0)
