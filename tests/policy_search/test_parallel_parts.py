"""An algorithm of one's own with parallel parts needs nothing but its own file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from search_problems import small_data
from two_parts import TwoParts

import hba
from hba.errors import SettingsError

SETTINGS: dict[str, Any] = {
    "model": "wrn-10-1",
    "epochs": 2,
    "batch_size": 8,
    "device": "cpu",
}


def test_parts_find_the_same_in_parallel_and_one_after_the_other(
    tmp_path: Path,
) -> None:
    in_turn = hba.search(small_data(), algorithm=TwoParts(), **SETTINGS)
    out = tmp_path / "run"
    parallel = hba.search(
        small_data(), algorithm=TwoParts(), jobs=2, out=out, **SETTINGS
    )
    assert in_turn.schedule is not None
    assert parallel.schedule is not None
    assert parallel.finished
    assert np.array_equal(parallel.schedule.values, in_turn.schedule.values)
    expected = in_turn.schedule.provenance["losses"]
    assert parallel.schedule.provenance["losses"] == pytest.approx(expected, rel=1e-4)
    assert np.isfinite(expected).all()


def test_an_algorithm_without_parts_takes_no_jobs() -> None:
    with pytest.raises(SettingsError, match="jobs"):
        hba.search(small_data(), algorithm="lookahead", jobs=2, **SETTINGS)
