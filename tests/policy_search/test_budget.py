"""The epochs that fit into a time, by a clock that only steps and passes move."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from search_problems import SMALL_SETTINGS, WithDropout, small_config, small_data

import hba
from hba.algorithms.lookahead import Lookahead
from hba.algorithms.race import Race
from hba.algorithms.race_policies import names_of_forks
from hba.errors import SettingsError
from hba.policy_search import timing
from hba.policy_search.context import ImageSearchContext
from hba.policy_search.timing import MANY_EPOCHS, StepTimer, within

SETTINGS: dict[str, Any] = {
    name: value for name, value in SMALL_SETTINGS.items() if name != "epochs"
}


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_search_ends_within_its_budget_by_the_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second for each training step and three for each policy step: 2.5 s a step,
    three of them an epoch.
    """
    clock = Clock()
    step = Lookahead.step
    update = Lookahead.update_lambda

    def timed_step(self: Lookahead, *arguments: Any) -> None:
        step(self, *arguments)
        clock.now += 1

    def timed_update(self: Lookahead, *arguments: Any) -> None:
        update(self, *arguments)
        clock.now += 3

    monkeypatch.setattr(Lookahead, "step", timed_step)
    monkeypatch.setattr(Lookahead, "update_lambda", timed_update)
    context = ImageSearchContext.of(
        small_config(epochs=MANY_EPOCHS, algorithm="lookahead"), small_data()
    )
    chosen = within(100.0, 0.0, context, clock)
    # Rounds of two steps and a policy step: one that is left out, and as many as fill a
    # twentieth of the budget.
    assert clock.now == 5 * 2
    epochs = chosen.config.epochs
    assert epochs == chosen.problem.config.epochs == int(0.85 * (100 - 10) / 7.5)
    assert chosen.start_notes[-1] == f"{epochs} epochs fit into the 100 s."
    algorithm = chosen.config.algorithm
    state = chosen.config.algorithm.begin(chosen.problem, chosen.networks)
    for _ in range(epochs * state.steps_per_epoch):
        algorithm.step(chosen.problem, state)
    assert 70 <= clock.now <= 100
    with pytest.raises(SettingsError, match="at least about"):
        within(1.0, clock.now, context, clock)


def test_a_race_keeps_its_budget_with_all_its_forks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    step = Race.step

    def timed_step(self: Race, *arguments: Any) -> None:
        step(self, *arguments)
        clock.now += 1

    monkeypatch.setattr(Race, "step", timed_step)
    context = ImageSearchContext.of(
        small_config(epochs=MANY_EPOCHS, algorithm="race", space="recipe"), small_data()
    )
    chosen = within(1000.0, 0.0, context, clock)
    n_forks = len(names_of_forks(context.problem.space))
    assert clock.now == 2 * n_forks, (
        "a round that does not count, and one with each group in turn"
    )
    n_steps = 3 * chosen.config.algorithm.total_epochs(
        chosen.config, chosen.problem.space
    )
    assert 0.7 * 1000 <= clock.now + n_steps <= 1000


def test_what_is_no_time_is_refused() -> None:
    for seconds in (0, np.inf, "20m"):
        with pytest.raises(SettingsError, match="budget_seconds"):
            hba.search(small_data(), budget_seconds=seconds, **SETTINGS)  # type: ignore[arg-type]


@pytest.mark.parametrize("algorithm", ["lookahead", "population"])
def test_the_timed_steps_change_nothing_that_is_drawn(
    algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with dropout, which draws from the default generator."""
    monkeypatch.setattr(timing, "bisect_right", lambda *arguments, key: 2)
    torch.manual_seed(0)
    settings: dict[str, Any] = {
        **SETTINGS,
        "network": WithDropout(),
        "algorithm": algorithm,
        "learning_rate": 0.005,
    }
    settings.pop("model")
    result = hba.search(
        small_data(), budget_seconds=2, out=tmp_path / "run", **settings
    )
    plain = hba.search(small_data(), epochs=2, out=tmp_path / "plain", **settings)
    assert result.schedule is not None
    assert plain.schedule is not None
    np.testing.assert_array_equal(result.schedule.values, plain.schedule.values)
    for parameter, other in zip(
        result.network.parameters(), plain.network.parameters(), strict=True
    ):
        assert torch.equal(parameter, other)
    configs = [
        (tmp_path / name / "config.json").read_bytes() for name in ("run", "plain")
    ]
    assert configs[0] == configs[1]


@pytest.mark.slow
def test_a_budget_chooses_network_and_size_of_images_but_not_those_of_a_preset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "bisect_right", lambda *arguments, key: 2)
    monkeypatch.setattr(
        StepTimer,
        "_timed",
        lambda self, rung, is_fast: 1e-3 if rung[0] == "wrn-10-1" else 1.0,
    )
    for label in ("left", "right"):
        (tmp_path / "pets" / label).mkdir(parents=True)
        for number in range(12):
            Image.new("RGB", (20, 12), (10 * number, 200 * (label == "left"), 0)).save(
                tmp_path / "pets" / label / f"{number}.png"
            )
    settings_by_run: dict[str, dict[str, Any]] = {
        "chosen": {},
        "given": {"image_size": 8},
    }
    for name, options in settings_by_run.items():
        hba.search(
            tmp_path / "pets",
            budget_seconds=20.0,
            out=tmp_path / name,
            space="hba",
            **options,
        )
    chosen, kept = (
        json.loads((tmp_path / name / "config.json").read_text("utf-8"))
        for name in ("chosen", "given")
    )
    assert (chosen["model"], chosen["image_size"], chosen["epochs"]) == (
        "wrn-10-1",
        16,
        2,
    )
    assert chosen["batch_size"] < 32
    assert kept["image_size"] == 8
    hba.search(
        "digits",
        budget_seconds=20.0,
        out=tmp_path / "digits",
        train_size=20,
        val_size=20,
        space="hba",
    )
    preset = json.loads((tmp_path / "digits" / "config.json").read_text("utf-8"))
    assert (preset["batch_size"], preset["learning_rate"], preset["epochs"]) == (
        100,
        0.1,
        2,
    )
