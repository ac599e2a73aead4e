"""Searches of fixed values: on a bowl whose least place is known, for a time that a planted clock tells."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from benchmark_modules import module

from hba.errors import SettingsError
from hba.regularization.hyperparameter import Hyperparameter

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")

EPOCHS = 90
TUNED = (
    Hyperparameter("dropout.first", 0.0, 0.95, 0.05),
    Hyperparameter("weight_decay", 1e-6, 1e-1, 5e-4, "log"),
    Hyperparameter("cutout.holes", 0, 4, 1, whole=True),
)
OPTUNAS = ("random", "tpe", "asha")


class Training:
    """A bowl around (0.3, 1e-4, 2); an epoch takes a second, and the loss falls to the bowl's as 1 / epoch."""

    def __init__(self) -> None:
        self.now = 0.0
        self.epochs: list[int] = []

    def clock(self) -> float:
        return self.now

    def __call__(self, values: tuple[float, ...], monitor: Any) -> float:
        self.epochs.append(0)
        bottom = bowl(values)
        for epoch in range(1, EPOCHS + 1):
            self.now += 1.0
            self.epochs[-1] = epoch
            monitor.check()
            if epoch in monitor.rungs:
                monitor.tell(epoch, bottom + 1 / epoch)
        return bottom


def bowl(values: tuple[float, ...]) -> float:
    rate, decay, holes = values
    return float((rate - 0.3) ** 2 + (np.log10(decay) + 4) ** 2 / 25 + (holes - 2) ** 2 / 16)


def tuned(tuner: str, n_trainings: float, seed: int = 0, training: Callable[..., float] | None = None) -> Any:
    if tuner in OPTUNAS:
        pytest.importorskip("optuna", reason="Optuna comes with the extra `benchmarks`")
    own = Training()
    found = module("reproduction.tuning_baselines").tune(
        tuner, TUNED, training or own, EPOCHS, n_trainings * EPOCHS, seed, own.clock
    )
    return found, own


@pytest.mark.parametrize("tuner", ["grid", *OPTUNAS])
def test_values_lie_in_their_ranges_and_the_best_is_the_least_loss(tuner: str) -> None:
    found, _ = tuned(tuner, 8)
    assert len(found.trials) >= 8
    for trial in found.trials:
        for value, one in zip(trial.values, TUNED, strict=True):
            assert one.low <= value <= one.high
        assert trial.values[2] == round(trial.values[2])
    finished = [trial for trial in found.trials if trial.loss is not None]
    assert found.trials[found.best].loss == min(bowl(trial.values) for trial in finished)


@pytest.mark.parametrize("tuner", ["random", "tpe"])
def test_as_many_trainings_as_fit_and_what_is_not_done_does_not_count(tuner: str) -> None:
    found, own = tuned(tuner, 3.5)
    assert [trial.loss is None for trial in found.trials] == [False, False, False, True]
    assert own.epochs == [EPOCHS, EPOCHS, EPOCHS, EPOCHS // 2 + 1]
    assert [trial.seconds for trial in found.trials] == own.epochs
    exactly, _ = tuned(tuner, 3)
    assert [trial.loss is None for trial in exactly.trials] == [False, False, False]


def test_the_first_training_is_done_however_little_time_there_is() -> None:
    found, own = tuned("random", 0.1)
    assert own.epochs == [EPOCHS]
    assert found.best == 0


def test_asha_stops_weak_trainings_at_its_rungs_and_tries_more_in_the_same_time() -> None:
    asha, own = tuned("asha", 12)
    random, _ = tuned("random", 12)
    assert set(own.epochs[:-1]) == {EPOCHS // 9, EPOCHS // 3, EPOCHS}
    assert len(asha.trials) > 2 * len(random.trials)
    stopped = [bowl(trial.values) for trial in asha.trials[:-1] if trial.loss is None]
    finished = [bowl(trial.values) for trial in asha.trials if trial.loss is not None]
    assert np.median(stopped) > np.median(finished)


def test_tpe_comes_nearer_than_random_search() -> None:
    losses = {
        tuner: [(found := tuned(tuner, 60, seed)[0]).trials[found.best].loss for seed in range(5)]
        for tuner in ("random", "tpe")
    }
    assert np.median(losses["tpe"]) < 0.5 * np.median(losses["random"])


def test_tpe_goes_its_own_way_after_few_random_trials() -> None:
    tpe, random = ([trial.values for trial in tuned(tuner, 8)[0].trials] for tuner in ("tpe", "random"))
    starts = module("reproduction.tuning_baselines").STARTS
    assert tpe[:starts] == random[:starts]
    assert tpe[starts] != random[starts]


@pytest.mark.parametrize("tuner", OPTUNAS)
def test_a_seed_decides_all_values(tuner: str) -> None:
    first, again, other = (tuned(tuner, 4, seed)[0] for seed in (1, 1, 2))
    assert first.trials == again.trials
    assert first.trials != other.trials


def test_the_grid_has_all_at_the_same_place_of_their_ranges_and_ends() -> None:
    baselines = module("reproduction.tuning_baselines")
    found, _ = tuned("grid", 100)
    assert len(found.trials) == len(baselines.PLACES) == 8
    assert found.trials[0].values == pytest.approx((0.475, 10**-3.5, 2.0))
    assert found.trials[-1].values == (0.0, 1e-6, 0.0)


def test_an_unknown_tuner_is_one_line() -> None:
    with pytest.raises(SettingsError, match="one of grid, random, tpe, asha, got 'spearmint'"):
        tuned("spearmint", 1)
