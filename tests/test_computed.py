"""Searches and evaluations compute what they did: a change of their results is made on
purpose.
"""

import json
from collections.abc import Mapping
from typing import Any

import computed
import pytest

RECORDED: dict[str, Any] = json.loads(computed.COMPUTED.read_text(encoding="utf-8"))
ROUNDING = 1e-9
"""A thousand times as much as results differ in between processors, libraries and
numbers of threads.
"""

pytestmark = pytest.mark.skipif(
    computed.random_numbers()
    != pytest.approx(RECORDED["random_numbers"], rel=ROUNDING, abs=ROUNDING),
    reason=(
        "the results were recorded with releases of PyTorch and NumPy that draw other"
        " random numbers"
    ),
)


def assert_recorded(
    computed_values: Mapping[str, Any], recorded: Mapping[str, Any]
) -> None:
    assert computed_values.keys() == recorded.keys()
    for name, value in recorded.items():
        assert computed_values[name] == pytest.approx(
            value, rel=ROUNDING, abs=ROUNDING
        ), name


@pytest.mark.parametrize("name", computed.SEARCHES)
def test_a_search_computes_what_it_did(name: str) -> None:
    assert_recorded(
        computed.of_search(computed.SEARCHES[name]), RECORDED["searches"][name]
    )


def test_an_evaluation_computes_what_it_did() -> None:
    assert_recorded(computed.of_evaluation(), RECORDED["evaluation"])
