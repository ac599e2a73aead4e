"""The epochs that fit into a time, by a clock that only steps, passes and saves move, and for real."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from search_problems import SMALL_SETTINGS, WithDropout, small_config, small_data

import hba
from hba.algorithms.lookahead import Lookahead
from hba.algorithms.update_schedule import UpdateSchedule
from hba.errors import SettingsError
from hba.policy_search.budget import MANY_EPOCHS, Budget, Pieces, seconds_per_step, within
from hba.policy_search.context import ImageSearchContext

SETTINGS: dict[str, Any] = {name: value for name, value in SMALL_SETTINGS.items() if name != "epochs"}


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_search_takes_its_steps_passes_saves_and_report() -> None:
    """Ten epochs of four steps, the first five without policy steps; passes after epochs 1, 5 and 10 and one to spare;
    saves every five seconds of 60, and one at the end.
    """
    pieces = Pieces(warm_up_step=1.0, step=2.0, validation=0.5, save=0.25, report=3.0)
    pace = UpdateSchedule(2, warm_up_epochs=None).at(4)
    expected = 20 * 1.0 + 20 * 2.0 + 4 * 0.5 + (1 + min(10, 60 / 5)) * 0.25 + 3.0
    assert pieces.of_epochs(10, pace, 5) == pytest.approx(expected)


@pytest.mark.parametrize("warm_up_epochs", [None, 0, 3])
@pytest.mark.parametrize("seconds", [0.1, 9.9, 10.0, 57.0, 1000.0])
def test_the_most_epochs_that_fit_are_taken(seconds: float, warm_up_epochs: int | None) -> None:
    """As a search one by one finds them."""
    pieces = Pieces(warm_up_step=0.25, step=0.5, validation=0.5, save=0.125, report=1.0)
    pace = UpdateSchedule(2, warm_up_epochs=warm_up_epochs).at(4)
    one_by_one = 0
    while pieces.of_epochs(one_by_one + 1, pace, 10) <= seconds:
        one_by_one += 1
    assert pieces.epochs_within(seconds, pace, 10) == one_by_one


def test_whole_rounds_are_measured_and_the_first_is_left_out() -> None:
    """Steps of one second, every fourth of five; the first ones take ten more."""
    clock, steps = Clock(), iter(range(1, 1000))

    def step() -> None:
        number = next(steps)
        clock.now += (10 if number <= 4 else 0) + (1 if number % 4 else 5)

    assert seconds_per_step(step, 4, 30.0, end=1e9, clock=clock) == pytest.approx(2.0)
    # 48 s of a first round, and four rounds of 8 s.
    assert clock.now == 80


@pytest.mark.parametrize("given", [0, -1, np.nan, np.inf, "20m", True])
def test_what_is_no_time_is_refused(given: Any) -> None:
    with pytest.raises(SettingsError, match=r"^budget_seconds must be a number of seconds above 0, got "):
        hba.search(small_data(), budget_seconds=given, **SETTINGS)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Moved by a second for each training step, and three for each policy step."""
    clock = Clock()
    step, update = Lookahead.step, Lookahead.update_lambda

    def timed_step(self: Lookahead, *given: Any) -> None:
        step(self, *given)
        clock.now += 1

    def timed_update(self: Lookahead, *given: Any) -> None:
        update(self, *given)
        clock.now += 3

    monkeypatch.setattr(Lookahead, "step", timed_step)
    monkeypatch.setattr(Lookahead, "update_lambda", timed_update)
    return clock


def setup_of(**settings: Any) -> ImageSearchContext:
    config = small_config(**{"epochs": MANY_EPOCHS, "algorithm": "lookahead", **settings})
    return ImageSearchContext.of(config, small_data(), None, None, None)


@pytest.mark.parametrize("seconds", [200.0, pytest.param(1000.0, marks=pytest.mark.slow)])
def test_a_search_ends_within_its_budget_by_the_clock(seconds: float, clock: Clock) -> None:
    """Steps of 2.5 s with their share of the policy steps, three of them an epoch."""
    chosen = within(Budget(seconds, began=0.0), setup_of(), None, clock)
    before = clock.now
    # Rounds of two steps and a policy step: one that is left out, and as many as fill a twentieth of the budget.
    n_rounds = 1 + np.ceil(min(10.0, 0.05 * seconds) / 5)
    assert before == 5 * n_rounds
    epochs = chosen.config.epochs
    assert epochs == int(0.85 * (seconds - before) / 7.5)
    assert chosen.task.config.epochs == epochs
    # Below 48 policy steps, one in two training steps, it says what as many take.
    few = f"; about 32 would take {int(np.ceil(before + 32 * 7.5 / 0.85))} s" if epochs < 32 else ""
    assert chosen.start_notes[-1] == f"{epochs} epochs fit into the {seconds:g} s{few}."
    algorithm, state = chosen.config.algorithm, chosen.config.algorithm.begin(chosen.task, chosen.networks)
    for _ in range(epochs * state.steps_per_epoch):
        algorithm.step(chosen.task, state)
    assert 0.7 * seconds <= clock.now <= seconds


def test_a_budget_too_small_for_a_search_that_can_work_says_what_would_do(clock: Clock) -> None:
    """UpdateSchedule advises 32, of 2.5 s a step; a round is left out and another measured before."""
    chosen = within(Budget(45.0, began=0.0), setup_of(), None, clock)
    needed = int(np.ceil(10 + 32 * 7.5 / 0.85))
    assert clock.now == 10
    assert chosen.start_notes[-1] == f"3 epochs fit into the 45 s; about 32 would take {needed} s."


@pytest.mark.parametrize("algorithm", ["lookahead", "hba", "population", "hyper-population"])
def test_the_measured_steps_change_nothing_that_is_drawn(
    algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with dropout, which draws from the default generator."""
    monkeypatch.setattr(Pieces, "epochs_within", lambda *given: 3)
    torch.manual_seed(0)
    own: dict[str, Any] = {"network": WithDropout()}
    settings: dict[str, Any] = {**SETTINGS, "algorithm": algorithm, "seed": 5, "learning_rate": 0.005}
    settings.pop("model")
    within_budget = hba.search(small_data(), budget_seconds=60, out=tmp_path / "run", **own, **settings)
    plain = hba.search(small_data(), epochs=3, out=tmp_path / "plain", **own, **settings)
    assert within_budget.schedule is not None
    assert plain.schedule is not None
    np.testing.assert_array_equal(within_budget.schedule.values, plain.schedule.values)
    for one, other in zip(within_budget.network.parameters(), plain.network.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    configs = [(tmp_path / name / "config.json").read_bytes() for name in ("run", "plain")]
    assert configs[0] == configs[1]
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == sorted(
        path.name for path in (tmp_path / "plain").iterdir()
    )
    longer = hba.search(small_data(), out=tmp_path / "run", resume=True, epochs=4, **own)
    assert len(longer.metrics) == 4
