"""A run whose trainings take longer than planned gets fewer epochs, keeps its rows, and
ends in time.
"""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from small_trainings import two_sides

import hba
from hba.policy_choice import run as run_module
from hba.policy_choice.callbacks import (
    AutoCallback,
    EvaluationSteps,
    PhaseProgress,
    TimeOver,
)
from hba.policy_choice.evaluation_phase import NAME as TEST
from hba.policy_search import timing
from hba.policy_search.timing import Pace, StepTimer, TooSlow


class Clock:
    """A clock that only moves when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


STEPS = 100
"""Of each training."""


def complaint(
    training_seconds: float, n_jobs: int, seconds_left: float
) -> float | None:
    """The time of a training that a pace of 4 trainings, with 2 to follow, complains
    about; None if it does not.
    """
    clock = Clock()
    watched = Pace(
        4, 4 * STEPS, n_jobs, seconds_left, following=2.0, clock=clock.monotonic
    )
    for _ in range(4 * STEPS):
        clock.now += training_seconds / STEPS / min(n_jobs, 4)
        try:
            watched.step_done()
        except TooSlow as slow:
            return slow.seconds
    return None


@pytest.mark.parametrize(("n_jobs", "n_rounds"), [(1, 4), (2, 2), (3, 2), (8, 1)])
def test_trainings_are_too_slow_exactly_if_they_and_what_follows_do_not_fit(
    n_jobs: int, n_rounds: int
) -> None:
    needed = 50.0 * (n_rounds + 2) / timing.TOLERATED
    assert complaint(50.0, n_jobs, 0.8 * needed) == pytest.approx(50.0, rel=0.1)
    assert complaint(50.0, n_jobs, 1.2 * needed) is None


SECONDS_OF_IMAGE = 0.03
"""Planned time of an image in a training step."""
BATCH = 20


class SlowSteps(AutoCallback):
    """Every step takes longer than planned, from the given phase on."""

    def __init__(self, clock: Clock, factor: float, first_phase: str) -> None:
        self.clock = clock
        self.factor = factor
        self.first_phase = first_phase
        self.is_slow = False

    def advanced(self, phase: str, done: float, total: float) -> None:
        self.is_slow = self.is_slow or phase == self.first_phase
        self.clock.now += (
            BATCH * SECONDS_OF_IMAGE * (self.factor if self.is_slow else 1.0)
        )


def timed_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, factor: float, first_phase: str
) -> tuple[Any, float]:
    """A run whose clock counts only steps, and its time as a share of its budget."""
    train, test = (
        [*zip(split.images, split.labels.tolist(), strict=True)]
        for split in (two_sides(60, 0), two_sides(20, 1))
    )
    clock = Clock()
    budget = 140.0
    monkeypatch.setattr(run_module, "time", SimpleNamespace(monotonic=clock.monotonic))
    monkeypatch.setattr(StepTimer, "_timed", lambda *_: SECONDS_OF_IMAGE)
    with mock.patch.object(Pace.__init__, "__defaults__", (clock.monotonic,)):
        result = hba.auto(
            (train, test),
            out=folder,
            budget_seconds=budget,
            jobs=1,
            model="simple-cnn-4",
            image_size=8,
            batch_size=BATCH,
            learning_rate=0.02,
            fast=False,
            tunes_strength=True,
            callback=SlowSteps(clock, factor, first_phase),
        )
    return result, clock.now / budget


@pytest.mark.parametrize(
    ("factor", "first_phase"),
    [
        pytest.param(1.0, "search", marks=pytest.mark.slow),
        (2.5, "search"),
        (4.0, "test"),
    ],
)
def test_a_run_keeps_to_its_time_and_trains_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factor: float, first_phase: str
) -> None:
    result, share = timed_run(tmp_path / "run", monkeypatch, factor, first_phase)
    assert share <= 1.1
    assert result.finished
    assert not [row for row in result.record.rows if not row["losses"]]
    assert {"none", "randaugment", "search"} <= {
        row["name"] for row in result.record.rows
    }
    planned = json.loads(
        (tmp_path / "run" / "search" / "config.json").read_text("utf-8")
    )["epochs"]
    assert (result.results.settings["epochs"] < planned) == (factor > 1)
    assert all(0 in row.seeds for row in result.results.rows)


def row_of(name: str, seeds: tuple[int, ...] = ()) -> Any:
    return SimpleNamespace(name=name, seeds=seeds)


def test_a_test_out_of_time_ends_once_all_rows_share_the_first_seed(
    tmp_path: Path,
) -> None:
    """Parallel trainings may end in any order."""
    steps = EvaluationSteps(
        PhaseProgress(AutoCallback(), {TEST: 1.0}), TEST, lambda: True, lambda _: None
    )
    rows = (row_of("photo"), row_of("none"), row_of("randaugment", (0,)))
    plan: Any = SimpleNamespace(
        config=SimpleNamespace(first_seed=0),
        result=SimpleNamespace(rows=rows),
        folder=tmp_path,
        n_trainings=5,
        steps_per_training=1,
    )
    steps.planned(plan)
    measured: Any = SimpleNamespace(error_percent=1.0)
    steps.training_done("photo", 1, measured, ())
    steps.training_done("none", 0, measured, ())
    steps.training_done("none", 1, measured, ())
    with pytest.raises(TimeOver):
        steps.training_done("photo", 0, measured, ())
