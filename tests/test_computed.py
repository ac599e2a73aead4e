"""Searches and evaluations compute what version 0.1.0 computed, to the last bit; its files load."""

import json
from typing import Any

import computed
import pytest

import hba

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
