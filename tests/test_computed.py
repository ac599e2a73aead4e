"""Searches and evaluations compute what version 0.1.0 computed, to the last bit; its files load."""

import json
import shutil
from pathlib import Path
from typing import Any

import computed
import numpy as np
import old_runs
import pytest

import hba
from hba.algorithms import Lookahead
from hba.policy_search.config import SearchConfig

COMMITTED: dict[str, Any] = json.loads((computed.GOLDEN / "computed-0.1.0.json").read_text(encoding="utf-8"))

same_platform = pytest.mark.skipif(
    computed.platform() != COMMITTED["platform"],
    reason=f"the last bits are known for {COMMITTED['platform']} only, this is {computed.platform()}",
)


@same_platform
@pytest.mark.parametrize("name", computed.SEARCHES)
def test_a_search_computes_what_it_did(name: str) -> None:
    assert computed.of_search(computed.SEARCHES[name]) == COMMITTED["searches"][name]


@same_platform
def test_an_evaluation_computes_what_it_did() -> None:
    assert computed.of_evaluation() == COMMITTED["evaluation"]


def test_a_run_folder_of_version_0_1_0_loads() -> None:
    schedule = hba.load_policy(computed.RUN)
    assert schedule.epochs == 4
    assert schedule.provenance["settings"]["reward_draws"] == 4
    config = SearchConfig.from_file(json.loads((computed.RUN / "config.json").read_text(encoding="utf-8")))
    assert config.algorithm == Lookahead(probes=2)
    assert (config.epochs, config.batch_size, config.image_size) == (4, 100, 16)


@pytest.mark.parametrize("name", old_runs.OF_EACH)
def test_a_run_that_version_0_1_0_left_is_resumed_to_the_same_end(name: str, tmp_path: Path) -> None:
    run = shutil.copytree(old_runs.STOPPED / name, tmp_path / name)
    resumed = old_runs.searched(name, run, resume=True)
    whole = json.loads((old_runs.STOPPED / "whole.json").read_text(encoding="utf-8"))[name]
    assert resumed.finished
    exactly = computed.platform() == COMMITTED["platform"]
    np.testing.assert_allclose(old_runs.values_of(resumed)[-1], whole, rtol=0, atol=0 if exactly else 1e-2)
    stored = json.loads((run / "config.json").read_text(encoding="utf-8"))
    assert "weight_sigma" not in stored or name == "population"
