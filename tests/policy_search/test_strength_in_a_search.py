"""Searches of strength: where they begin, what they search beside the slots, and the spread that they hand out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from search_problems import SELF_TUNING, small_data, small_settings

import hba
from hba.algorithms import ALGORITHMS
from hba.policy.space import SearchSpace

every_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)


def run(out: Path | None = None, **settings: Any) -> hba.SearchResult:
    return hba.search(small_data(), out=out, **small_settings(**settings))


def schedule_of(result: hba.SearchResult) -> hba.Schedule:
    assert result.schedule is not None
    return result.schedule


def is_probability(space: SearchSpace) -> np.ndarray:
    return np.array([name.endswith("probability") for name in space.names])


@every_algorithm
@pytest.mark.parametrize("spread_over", ["none", "magnitudes", "all"])
def test_the_schedule_s_spread_is_the_noise_on_those_that_keep_it(
    algorithm: str, spread_over: str, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"spread_over": spread_over, "sigma": 0.75, "spread_share": 0.5}
    if algorithm in SELF_TUNING:
        settings["sigma_entropy"] = None
    result = run(tmp_path, algorithm=algorithm, **settings, count="searched", epochs=2)
    schedule = schedule_of(result)
    magnitudes = ~is_probability(schedule.space)
    keeps = {"none": np.zeros(57), "all": np.ones(57), "magnitudes": magnitudes.astype(float)}[spread_over]
    np.testing.assert_array_equal(schedule.spread, np.stack([0.375 * keeps] * 2))
    np.testing.assert_array_equal(hba.load_policy(tmp_path).spread, schedule.spread)
    assert (schedule.policy(1).spread is None) == (spread_over == "none")


@pytest.mark.parametrize("algorithm", ["lookahead", "hba", "fixed-noise"])
def test_each_row_keeps_the_noise_of_the_end_of_its_epoch(algorithm: str, tmp_path: Path) -> None:
    run(tmp_path, algorithm=algorithm, spread_over="all", spread_share=1.0, sigma=1.0, sigma_end=0.25)
    spread = hba.load_policy(tmp_path).spread
    np.testing.assert_allclose(spread[:, 0], [0.75, 0.5, 0.25], atol=1e-6)
    assert (spread == spread[:, :1]).all()


@pytest.mark.parametrize("algorithm", ["lookahead", "hba-lookahead"])
def test_a_searched_spread_begins_at_sigma_and_moves_in_its_bounds(algorithm: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"algorithm": algorithm, "spread_over": "magnitudes", "spread_share": 1.0, "sigma": 0.5}
    settings["warm_up_epochs"] = 0
    run(tmp_path, **settings, search_spread=True, strength_learning_rate=0.25, train_steps=1, epochs=4)
    found = hba.load_policy(tmp_path)
    widths = found.spread[:, ~is_probability(found.space)]
    assert (widths == widths[:, :1]).all()
    assert len(set(widths[:, 0])) == 4, "it moves"
    assert (abs(np.log(widths / 0.5)) <= 1.5 + 1e-5).all()
    assert not found.spread[:, is_probability(found.space)].any()


@every_algorithm
def test_a_searched_k_is_three_numbers_more_that_move(algorithm: str, tmp_path: Path) -> None:
    result = run(tmp_path, algorithm=algorithm, count="searched", train_steps=1)
    schedule = schedule_of(result)
    assert schedule.space.searches_count
    assert schedule.space.max_count == 3
    assert schedule.values.shape == (3, 57)
    assert (schedule.values[0, -3:] != schedule.values[-1, -3:]).all()
    assert result.lam.shape == (57,)
    assert hba.load_policy(tmp_path).space == schedule.space
    if result.hypernetwork is not None:
        logits = result.hypernetwork.eval()(torch.rand(2, 3, 8, 8), result.lam)
        assert logits.shape == (2, 2)
        assert logits.isfinite().all()
