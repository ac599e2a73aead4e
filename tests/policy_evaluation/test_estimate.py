"""The estimate of how long the trainings will take, on a clock of its own."""

import pytest

from hba.policy_evaluation.callbacks import TimeEstimate


def told_by(n_steps: int, times: list[float]) -> list[float]:
    told: list[float] = []
    clock = iter(times)
    estimate = TimeEstimate(n_steps, told.append, lambda: next(clock))
    for _ in range(n_steps):
        estimate.step_done()
    return told


def test_the_estimate_is_the_rate_behind_a_slow_start_times_all_steps() -> None:
    slow = [0.0, 1.9]
    # From the third step on, half a second each; counted until three seconds have passed.
    steady = [2.4 + 0.5 * step for step in range(100)]
    assert told_by(60, slow + steady) == [pytest.approx(30)]


def test_it_is_told_once_and_early() -> None:
    assert told_by(1000, [0.25 * step for step in range(1000)]) == [250.0]


def test_steps_that_several_processes_report_together_count_together() -> None:
    times = [0.5 * (step // 4) for step in range(400)]
    (seconds,) = told_by(400, times)
    assert abs(seconds - 50) < 8


def test_trainings_that_end_at_once_are_told_nothing_of() -> None:
    assert told_by(20, [0.1 * step for step in range(20)]) == []


def test_a_step_that_takes_longer_than_all_this_is_enough() -> None:
    assert told_by(10, [60.0 * step for step in range(10)]) == [600.0]
