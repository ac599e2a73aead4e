"""From a file of images of two labels to a verdict: search, resume, evaluation, reports."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pairs_of_digits import pairs_file
from search_problems import StopAfter

import hba
from hba.data.labels import MULTI_LABEL_ERROR

SETTINGS: dict[str, Any] = {"model": "wrn-10-1", "epochs": 3, "image_size": 16, "batch_size": 32, "device": "cpu"}
N_IMAGES = 160


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the file, and of the run of a search on it."""
    folder = tmp_path_factory.mktemp("pairs")
    hba.search(pairs_file(folder, N_IMAGES), out=folder / "run", train_steps=1, **SETTINGS)
    return folder


def test_the_network_learns_more_than_one_digit_of_a_pair(tmp_path: Path) -> None:
    result = hba.search(pairs_file(tmp_path, 400), **{**SETTINGS, "epochs": 12, "learning_rate": 0.1})
    first, last = (row["val_error_percent"] for row in (result.metrics[0], result.metrics[-1]))
    assert first is not None
    assert last is not None
    # By chance alone a ranking has the share of positives as its precision, here one in six.
    assert last < first - 10
    assert last < 65


def test_a_run_says_what_its_error_is(place: Path) -> None:
    origin = hba.load_policy(place / "run" / "policy.json").provenance
    assert origin["error"] == MULTI_LABEL_ERROR
    page = (place / "run" / "report.html").read_text()
    assert f"Validation error ({MULTI_LABEL_ERROR}) of the search network" in page
    assert f"Error ({MULTI_LABEL_ERROR}), per cent" in page


def test_a_resumed_search_finds_what_an_uninterrupted_one_finds(place: Path, tmp_path: Path) -> None:
    settings = {**SETTINGS, "train_steps": 1}
    hba.search(place / "pairs.npz", out=tmp_path, callback=StopAfter(5), **settings)
    resumed = hba.search(place / "pairs.npz", out=tmp_path, resume=True)
    assert resumed.finished
    assert resumed.schedule is not None
    assert np.array_equal(resumed.schedule.values, hba.load_policy(place / "run" / "policy.json").values)


def test_baselines_train_on_several_labels_side_by_side(place: Path) -> None:
    against = ["cutout", "shuffled", "randaugment"]
    alone, beside = (
        hba.evaluate(place / "run" / "policy.json", against=against, seeds=1, epochs=1, jobs=jobs) for jobs in (1, 2)
    )
    assert [row.name for row in beside.rows] == ["run", *against]
    # The numbers depend on the threads of a training, not on its process.
    for row, other in zip(alone.rows, beside.rows, strict=True):
        assert row.test_error_percent == pytest.approx(other.test_error_percent, abs=2)
