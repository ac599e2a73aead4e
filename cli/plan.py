"""What `hba search` says before it begins: what it does with which images, and how long that will take."""

import time
from collections.abc import Callable

from hba.policy_search.plan import SearchPlan
from hba.runtime.wording import counted

from .wording import class_words, left_out_words, minutes_words

LEAST_SECONDS = 5.0
"""Of steps that are timed before the whole is estimated."""


def plan_lines(plan: SearchPlan) -> list[str]:
    """The images, the network and what it is trained on, the search's length, and the notes."""
    threads = f" ({counted(plan.threads, 'thread')})" if plan.device == "cpu" else ""
    done = f" ({plan.epochs_done} done)" if plan.epochs_done else ""
    where = f"; in {plan.folder}" if plan.folder is not None else ""
    probes = f", {counted(plan.probes, 'probe')}" if plan.probes else ""
    return [
        f"{plan.train_images:,} training and {plan.val_images:,} validation images of {class_words(plan.class_names)}"
        f"{_kept_for_test(plan)}{left_out_words(plan.left_out, plan.folder)}",
        f"{plan.model}, {plan.n_parameters:,} parameters, images of {plan.image_size}x{plan.image_size}, on "
        f"{plan.device}{threads}{where}",
        f"{counted(plan.epochs, 'epoch')}{done}, each of {counted(plan.steps_per_epoch, 'step')} on {plan.batch_size} "
        f"images; {counted(plan.policy_steps, 'policy step')}{probes}",
        *plan.notes,
    ]


def _kept_for_test(plan: SearchPlan) -> str:
    if plan.test_images is None:
        return ""
    if plan.test_images:
        return f"; {plan.test_images:,} test images are kept for hba evaluate"
    return f"; the test images of {plan.data} are kept for hba evaluate, unopened"


class Estimate:
    """How long a search will take, said once.

    Timed are whole rounds of training steps and the policy steps that follow them, from the first policy step on. What
    comes before is faster for the lack of one, or slower because everything is done for the first time.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._plan: SearchPlan | None = None
        self._begun = 0.0

    def begin(self, plan: SearchPlan) -> None:
        self._plan = plan

    def step_done(self, step: int) -> str | None:
        """`About 12 minutes to go.` once that is known; None before, and ever after."""
        plan = self._plan
        if plan is None or step < plan.first_policy_step or (step - plan.first_policy_step) % plan.train_steps:
            return None
        now, timed = self._clock(), step - plan.first_policy_step
        if timed == 0:
            self._begun = now
        if timed == 0 or now - self._begun < LEAST_SECONDS:
            return None
        self._plan = None
        left = plan.epochs * plan.steps_per_epoch - step
        return f"{minutes_words(left * (now - self._begun) / timed / 60)} to go." if left else None
