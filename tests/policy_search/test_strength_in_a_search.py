"""Searches of strength: where they begin, what they search beside the slots, and the spread that they hand out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from search_problems import SELF_TUNING, small_data, small_settings
from search_steps import algorithm_of, begun

import hba
from hba.algorithms import ALGORITHMS
from hba.errors import SettingsError
from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.policy.spaces import search_space
from hba.policy.starts import randaugment

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


def test_a_search_hands_out_the_bare_rows_that_it_had_without_a_spread() -> None:
    """What is handed out decides nothing of the search."""
    rows = [schedule_of(run(spread_over=spread_over)).values for spread_over in ("none", "magnitudes", "all")]
    np.testing.assert_array_equal(rows[0], rows[1])
    np.testing.assert_array_equal(rows[0], rows[2])


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


def test_the_noise_of_a_searched_spread_is_sigma_times_what_was_found() -> None:
    task, state = begun(algorithm="lookahead", search_spread=True, strength_learning_rate=0.1, sigma=0.5)
    algorithm = algorithm_of(task)
    assert algorithm.spread_now(task, state) == 0.5
    with torch.no_grad():
        state.mover.strength.log_spread.fill_(0.75)
    assert algorithm.spread_now(task, state) == pytest.approx(0.5 * np.exp(0.75), rel=1e-6)
    trial = algorithm.augmented(task, state, *state.train_stream.next())
    expected = task.space.decode(state.lam.detach() + 0.5 * np.exp(0.75) * trial.noise)
    torch.testing.assert_close(trial.values, expected, rtol=1e-5, atol=1e-6)


@every_algorithm
@pytest.mark.parametrize("count", ["fixed", "searched"])
def test_a_search_can_begin_at_randaugment(algorithm: str, count: str) -> None:
    space = search_space(searches_count=count == "searched")
    _, state = begun(space, algorithm=algorithm, init="randaugment", count=count)
    assert torch.equal(state.lam.detach(), randaugment(space))


@pytest.mark.parametrize("algorithm", ["lookahead", "hba", "hba-lookahead", "fixed-noise"])
def test_without_lambda_steps_the_schedule_is_randaugment_s(algorithm: str) -> None:
    schedule = schedule_of(run(algorithm=algorithm, init="randaugment", count="searched", val_steps=0, epochs=2))
    space = search_space(searches_count=True)
    assert schedule.space == space
    expected = space.decode(randaugment(space).double()).numpy()
    for row in schedule.values:
        np.testing.assert_allclose(row, expected, atol=1e-6)


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


@every_algorithm
def test_an_own_space_with_a_certain_k_is_searched(algorithm: str) -> None:
    """An infinite logit would be no number to a hypernetwork."""
    space = SearchSpace((OPERATIONS["Rotate"], OPERATIONS["Color"]), 1, (0.0, 1.0, 0.0), searches_count=True)
    result = run(algorithm=algorithm, space=space, epochs=2)
    assert schedule_of(result).space == space
    assert result.lam.isfinite().all()


@pytest.mark.parametrize("algorithm", ["lookahead", "hba", "hba-lookahead", "fixed-noise"])
def test_shared_coordinates_lead_elsewhere(algorithm: str) -> None:
    alone, shared = (schedule_of(run(algorithm=algorithm, strength_learning_rate=rate)).values for rate in (0.0, 0.25))
    assert not np.array_equal(alone, shared)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"search_spread": True, "strength_learning_rate": 0.0},
            "search_spread needs a strength_learning_rate above 0",
        ),
        ({"strength_learning_rate": -0.1}, "strength_learning_rate must be at least 0.0, got -0.1"),
        ({"spread_over": "probabilities"}, "spread_over must be "),
        ({"init": "trivialaugment"}, "init must be "),
        ({"count": "free"}, "count must be "),
        ({"algorithm": "hba", "search_spread": True}, "search_spread has no effect on the algorithm hba; remove it"),
        ({"algorithm": "population", "strength_learning_rate": 0.1}, "strength_learning_rate has no effect on the "),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_line(
    settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError) as raised:
        run(tmp_path / "new", **settings)
    assert str(raised.value).startswith(message)
    assert len(str(raised.value).splitlines()) == 1
    assert not (tmp_path / "new").exists()
