"""When policy steps come and how far they reach: against a count step by step, and
PyTorch's optimizers.
"""

from itertools import product
from typing import Any

from hba.algorithms.update_schedule import TRIED_STEPS, UpdateSchedule


def one_by_one(
    update_schedule: UpdateSchedule, epochs: int, steps_per_epoch: int
) -> int:
    """As the algorithms go."""
    steps = range(1, epochs * steps_per_epoch + 1)
    warm_up_steps = update_schedule.warm_up_epochs * steps_per_epoch
    return sum(
        update_schedule.in_a_row
        for step in steps
        if step % update_schedule.train_steps == 0 and step > warm_up_steps
    )


def test_policy_steps_are_those_that_come_step_by_step() -> None:
    for per_epoch, every, in_a_row, warm_up in product(
        (1, 3, 7), (1, 2, 4, 5), (0, 1, 3), (0, 1, 4)
    ):
        update_schedule = UpdateSchedule(every, in_a_row, warm_up, 0.03)
        for epochs in range(20):
            assert update_schedule.policy_steps(epochs, per_epoch) == one_by_one(
                update_schedule, epochs, per_epoch
            )


def test_the_epochs_advised_are_the_fewest_that_are_enough() -> None:
    cases: tuple[tuple[dict[str, Any], int], ...] = (
        ({}, 2),
        ({"in_a_row": 3}, 2),
        ({"warm_up_epochs": 20}, 2),
        ({"stride": 0.003}, 391),
        ({"stride": 1.0}, 2),
    )
    for changed, per_epoch in cases:
        update_schedule = UpdateSchedule(
            **{"train_steps": 4, "stride": 0.03, **changed}
        )
        epochs = update_schedule.advised_epochs(per_epoch)
        fewer, steps = (
            update_schedule.policy_steps(some, per_epoch)
            for some in (epochs - 1, epochs)
        )
        assert fewer < max(3 / update_schedule.stride, TRIED_STEPS) <= steps, changed
        assert update_schedule.advice(epochs, per_epoch) is None
