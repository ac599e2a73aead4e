"""A search within a given time: times a few steps and a validation, and chooses the
number of epochs that fit.

It times a copy of the search, so the search draws the same random numbers as one with
these epochs and no budget.
"""

import math
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace

import torch

from hba.errors import SettingsError
from hba.policy_search.context import ImageSearchContext
from hba.policy_search.trainer import graphs_for
from hba.training.metrics import measure
from hba.utils.graphs import EAGER_RUNS
from hba.utils.seeding import default_generators
from hba.utils.text import counted

MANY_EPOCHS = 1_000_000
"""Epochs of a search until the budget chooses them."""
PLANNED_SHARE = 0.85
"""Share of the remaining time to plan with; the rest is for saves, the report, and a
machine that slows down.
"""
MEASURED_SHARE = 0.05
"""Largest share of a budget for timing steps."""
MOST_MEASURED_SECONDS = 10.0
"""Largest number of seconds for timing steps."""

Clock = Callable[[], float]


def within(
    seconds: float,
    began: float,
    context: ImageSearchContext,
    clock: Clock = time.monotonic,
) -> ImageSearchContext:
    """The same search with as many epochs as fit into a time, and a note on it.

    A step of the warm-up counts like a later one.

    Args:
        seconds: The time, counted from `began`.
        began: When the time began, by the clock.
        context: The search.
        clock: Returns the time in seconds.

    Raises:
        SettingsError: If too few epochs fit.
    """
    config = context.config
    space = context.problem.space
    algorithm = context.config.algorithm
    every = config.measured_every
    batches = context.problem.train_stream().batches_per_pass
    seconds_of_step, seconds_of_validation = measured(context, seconds, clock)

    def cost(epochs: int) -> float:
        """Seconds from the first step on, with validations also after the first and the
        last epoch and each leg.
        """
        candidate = config.model_copy(update={"epochs": epochs})
        total = algorithm.total_epochs(candidate, space)
        n_legs = len(algorithm.leg_epochs(candidate, space))
        return (
            total * batches * seconds_of_step
            + (total // every + 2 + 3 * n_legs) * seconds_of_validation
        )

    epochs = bisect_right(
        range(1, MANY_EPOCHS + 1), PLANNED_SHARE * (began + seconds - clock()), key=cost
    )
    if epochs == 0:
        needed = math.ceil(clock() - began + cost(1) / PLANNED_SHARE)
        raise SettingsError(
            f"budget_seconds must be at least about {needed} for one epoch, got"
            f" {seconds:g}"
        )
    config = config.changed({"epochs": epochs})
    note = f"{counted(epochs, 'epoch')} fit into the {seconds:g} s."
    problem = replace(context.problem, config=config)
    return replace(
        context,
        config=config,
        problem=problem,
        start_notes=(*context.start_notes, note),
    )


def measured(
    context: ImageSearchContext, budget: float, clock: Clock
) -> tuple[float, float]:
    """Time a training step and a validation.

    The first round of train_steps is slower and not counted, nor are those before steps
    run as CUDA graphs.

    Args:
        context: The search.
        budget: The budget in seconds, of which timing takes a share.
        clock: Returns the time in seconds.

    Returns:
        Mean seconds of a training step with its share of the policy steps, and of a
        pass over all validation images.
    """
    config = context.config.algorithm.config_for_timing(context.config)
    algorithm = config.algorithm
    problem = replace(context.problem, config=config)
    with default_generators(problem.device):
        state = algorithm.begin(problem, context.networks)
        state.graphs = graphs_for(state, problem)

        def now() -> float:
            if state.device.type == "cuda":
                torch.cuda.synchronize(state.device)
            return clock()

        every = algorithm.steps_for_timing(problem.space)
        seconds = min(MEASURED_SHARE * budget, MOST_MEASURED_SECONDS)
        n_rounds = -1 if state.graphs.recorder is None else -EAGER_RUNS
        begun = now()
        while n_rounds < 1 or now() - begun < seconds:
            for number in range(every):
                algorithm.prepare_timed_step(problem, state, number)
                algorithm.step(problem, state)
            n_rounds += 1
            if n_rounds == 0:
                begun = now()
        of_step = (now() - begun) / (n_rounds * every)
        begun = now()
        measure(state.to_module(), problem.data.val, problem.preprocessing.measure)
        return of_step, now() - begun
