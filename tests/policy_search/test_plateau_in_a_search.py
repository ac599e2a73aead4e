"""Searches whose learning rate waits for the validation loss, or stays: resumed, lengthened, measured."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from search_problems import small_data, small_settings

import hba
from hba.config.training import PLATEAU

ON_PLATEAU: dict[str, Any] = {"learning_rate_schedule": PLATEAU, "plateau_epochs": 1, "epochs": 8, "validate_every": 8}


def run(out: Path | None = None, **settings: Any) -> hba.SearchResult:
    given = {"device": "cpu", **settings} if settings.get("resume") else small_settings(**settings)
    return hba.search(small_data(), out=out, **given)


def values_of(result: hba.SearchResult) -> np.ndarray:
    assert result.schedule is not None
    return result.schedule.values


def without_time(result: hba.SearchResult) -> list[dict[str, float | None]]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in result.metrics]


@pytest.mark.parametrize("algorithm", ["lookahead", "delta-stn", "population"])
def test_every_epoch_is_measured_and_the_rate_goes_by_what_is_found(algorithm: str) -> None:
    members: dict[str, Any] = {"population_size": 2} if algorithm == "population" else {}
    result = run(algorithm=algorithm, learning_rate=0.2, **ON_PLATEAU, **members)
    least, rate, rates = float("inf"), 0.2, []
    for row in result.metrics:
        assert row["val_loss"] is not None
        if row["val_loss"] < least:
            least = row["val_loss"]
        else:
            rate *= 0.1
        rates.append(rate)
    assert [row["learning_rate"] for row in result.metrics] == pytest.approx(rates)
    assert rates[-1] < 0.2


@pytest.mark.parametrize("schedule", ["constant", PLATEAU])
def test_a_lengthened_search_is_the_longer_one_where_the_rate_does_not_depend_on_its_epochs(
    schedule: str, tmp_path: Path
) -> None:
    own: dict[str, Any] = {"plateau_epochs": 1} if schedule == PLATEAU else {}
    settings: dict[str, Any] = {"algorithm": "hba", "learning_rate_schedule": schedule, "learning_rate": 0.2, **own}
    whole = run(**settings, epochs=8, validate_every=1)
    run(tmp_path, **settings, epochs=5, validate_every=1)
    longer = run(tmp_path, resume=True, epochs=8)
    np.testing.assert_array_equal(values_of(longer), values_of(whole))
    assert without_time(longer) == without_time(whole)
    assert (longer.metrics[-1]["learning_rate"] == 0.2) == (schedule == "constant")
