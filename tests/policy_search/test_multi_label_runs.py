"""From a file of images of two labels to a verdict: search, resume, evaluation, reports."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pairs_of_digits import pairs_file
from search_problems import StopAfter

import hba
from hba.data import LabelledImages, SearchData
from hba.data.labels import MULTI_LABEL_ERROR
from hba.errors import SettingsError

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


def test_the_sentence_on_several_labels_comes_before_the_search(place: Path) -> None:
    result = hba.search(place / "pairs.npz", **{**SETTINGS, "epochs": 1})
    assert any(note.startswith("images have several labels: loss is binary cross") for note in result.notes)


@pytest.fixture
def noise_of_two() -> SearchData:
    """Noise with a matrix of labels, whose second column is empty."""
    pixels = torch.randint(0, 256, (64, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    images = LabelledImages(pixels, torch.stack([torch.arange(64) % 2, torch.zeros(64)], dim=1).bool())
    return SearchData("noise", ("odd", "neither"), images, images)


def test_a_class_without_positives_in_memory_is_told(noise_of_two: SearchData) -> None:
    result = hba.search(noise_of_two, model="wrn-10-1", epochs=1, batch_size=32, device="cpu")
    assert result.notes[:2] == (
        "no training images of neither: they cannot be learned",
        "no validation images of neither: the policy is not searched for what it does to such images",
    )


def test_a_resumed_search_finds_what_an_uninterrupted_one_finds(place: Path, tmp_path: Path) -> None:
    settings = {**SETTINGS, "train_steps": 1}
    hba.search(place / "pairs.npz", out=tmp_path, callback=StopAfter(5), **settings)
    resumed = hba.search(place / "pairs.npz", out=tmp_path, resume=True)
    assert resumed.finished
    assert resumed.schedule is not None
    assert np.array_equal(resumed.schedule.values, hba.load_policy(place / "run" / "policy.json").values)


def test_an_evaluation_is_resumed_and_says_what_its_error_is(place: Path) -> None:
    out = place / "evaluation"
    schedule = place / "run" / "policy.json"
    first = hba.evaluate(schedule, seeds=1, out=out)
    assert first.error == MULTI_LABEL_ERROR
    result = hba.evaluate(schedule, seeds=2, out=out, resume=True)
    assert [len(row.seeds) for row in result.rows] == [2, 2]
    assert result.rows[0].by_seed()[0] == first.rows[0].by_seed()[0]
    stored = json.loads((out / "results.json").read_text())
    assert stored["error"] == MULTI_LABEL_ERROR
    assert result.verdict is not None
    assert f"Test error: {MULTI_LABEL_ERROR}." in result.verdict.sentence
    assert "One of" not in result.verdict.sentence, "a ranking has no share of wrong images"
    assert result.resolution is not None
    assert result.resolution.standard_error is None
    assert f"Test error ({MULTI_LABEL_ERROR}) after the last of" in (out / "report.html").read_text()


def test_baselines_train_on_several_labels_side_by_side(place: Path) -> None:
    against = ["cutout", "shuffled", "randaugment"]
    alone, beside = (
        hba.evaluate(place / "run" / "policy.json", against=against, seeds=1, epochs=1, jobs=jobs) for jobs in (1, 2)
    )
    assert [row.name for row in beside.rows] == ["run", *against]
    # The numbers depend on the threads of a training, not on its process.
    for row, other in zip(alone.rows, beside.rows, strict=True):
        assert row.test_error_percent == pytest.approx(other.test_error_percent, abs=2)


def test_test_images_that_the_search_has_seen_are_found(place: Path) -> None:
    with pytest.raises(SettingsError, match=r"the search of run has seen .* of the 32 test images"):
        hba.evaluate(place / "run" / "policy.json", split_seed=1)


def test_runs_of_both_kinds_of_errors_stand_side_by_side(place: Path, tmp_path: Path) -> None:
    hba.search("digits", out=tmp_path / "single", epochs=1, train_size=64, model="wrn-10-1", device="cpu")
    tables = hba.compare(place / "run", tmp_path / "single").tables()
    assert ("an error is", MULTI_LABEL_ERROR, "") in tables["Validation of the search network"].rows
