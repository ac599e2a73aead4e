"""Searches and evaluations compute what version 0.1.0 computed, to the last bit; its files load."""

import json
import shutil
from pathlib import Path
from typing import Any

import computed
import numpy as np
import old_runs
import pytest
from former_default import FORMER
from search_problems import small_data

import hba
from hba.algorithms import Lookahead
from hba.policy_search.config import SearchConfig

COMMITTED: dict[str, Any] = json.loads((computed.GOLDEN / "computed-0.1.0.json").read_text(encoding="utf-8"))

SAME_PLATFORM = computed.platform() == COMMITTED["platform"]
"""Another processor or PyTorch rounds otherwise, and a few steps carry that far."""
CHAOTIC = ("probe", "population")
"""Searches of many steps, or that select: they end elsewhere where numbers are rounded otherwise."""


def known_only_here() -> None:
    if not SAME_PLATFORM:
        pytest.skip(f"known for {COMMITTED['platform']} only, this is {computed.platform()}")


@pytest.mark.parametrize("name", computed.SEARCHES)
def test_a_search_computes_what_it_did(name: str) -> None:
    if any(word in name for word in CHAOTIC):
        known_only_here()
    found, expected = computed.of_search(computed.SEARCHES[name]), COMMITTED["searches"][name]
    if SAME_PLATFORM:
        assert found == expected
    low, high = np.array(hba.SearchSpace().ranges).T
    distance = (np.array(found["values"]) - expected["values"]) / (high - low)
    np.testing.assert_allclose(distance, 0, atol=0.05)


def test_an_evaluation_computes_what_it_did() -> None:
    known_only_here()
    assert computed.of_evaluation() == COMMITTED["evaluation"]


def test_a_run_folder_of_version_0_1_0_loads() -> None:
    schedule = hba.load_policy(computed.RUN)
    assert schedule.epochs == 4
    assert schedule.provenance["settings"]["reward_draws"] == 4
    config = SearchConfig.from_file(json.loads((computed.RUN / "config.json").read_text(encoding="utf-8")))
    assert config.algorithm == Lookahead(**FORMER, probes=2)
    assert (config.epochs, config.batch_size, config.image_size) == (4, 100, 16)


@pytest.mark.parametrize("name", old_runs.OF_EACH)
def test_a_run_that_version_0_1_0_left_is_resumed_to_the_same_end(name: str, tmp_path: Path) -> None:
    run = shutil.copytree(old_runs.STOPPED / name, tmp_path / name)
    # By its folder alone, whatever the defaults are now.
    resumed = hba.search(small_data(), network=old_runs.Small(), out=run, resume=True)
    whole = json.loads((old_runs.STOPPED / "whole.json").read_text(encoding="utf-8"))[name]
    assert resumed.finished
    np.testing.assert_allclose(old_runs.values_of(resumed)[-1], whole, rtol=0, atol=0 if SAME_PLATFORM else 1e-2)
    stored = json.loads((run / "config.json").read_text(encoding="utf-8"))
    assert "weight_sigma" not in stored or name == "population"
    assert stored.get("probes", 10) == 10, "as it was begun"
