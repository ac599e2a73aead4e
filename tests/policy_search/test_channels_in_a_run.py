"""Searches and evaluations on images of four and of two channels, from the file to the report."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from channels import file_of, of_channels
from PIL import Image

import hba
from hba.data import EvaluationData
from hba.errors import HbaError, SettingsError
from hba.operations import OPERATIONS

FITTING = ",".join(operation.name for operation in OPERATIONS.values() if operation.any_channels)
SETTINGS: dict[str, Any] = {
    "model": "wrn-10-1", "epochs": 2, "image_size": 8, "batch_size": 16, "device": "cpu", "train_steps": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("channels")
    for n_channels in (2, 4):
        file = file_of(folder, 80, n_channels)
        hba.search(file, out=folder / f"run-{n_channels}", operations=FITTING, **SETTINGS)
    return folder


def test_a_search_of_all_operations_is_refused_with_those_that_work(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=rf"Contrast and Color are defined .* not of 4: .*--operations {FITTING}$"):
        hba.search(file_of(tmp_path, 40, 4), **SETTINGS)


@pytest.mark.parametrize("n_channels", [2, 4])
def test_the_fill_is_the_mean_of_each_channel(place: Path, n_channels: int) -> None:
    schedule = hba.load_policy(place / f"run-{n_channels}" / "policy.json")
    assert len(schedule.fill) == n_channels
    assert schedule.fill[-1] > schedule.fill[0] + 0.1, "the last channel is brighter in half of the images"


def test_what_is_told_by_the_fourth_channel_alone_is_learned() -> None:
    """Without it, half of the answers would be wrong."""
    data = EvaluationData("four", ("dark", "bright"), of_channels(64, 4), of_channels(40, 4, seed=1))
    schedule = hba.Schedule(
        hba.SearchSpace((OPERATIONS["Invert"],), copies=1, count_probabilities=(1.0, 0.0)), np.array([[0.0]]), (0.5,)
    )
    result = hba.evaluate(schedule, data, seeds=1, **_evaluation(4))
    assert [row.test_error_percent for row in result.rows] == [(0.0,), (0.0,)]


def _evaluation(epochs: int) -> dict[str, Any]:
    return {"model": "wrn-10-1", "epochs": epochs, "batch_size": 16, "device": "cpu"}


def test_an_evaluation_has_the_rows_that_need_no_picture(place: Path) -> None:
    against = ["none", "cutout", "shuffled", "random"]
    result = hba.evaluate(place / "run-4" / "policy.json", against=against, seeds=1, out=place / "evaluation")
    assert [row.name for row in result.rows] == ["run-4", *against]


def test_the_transform_takes_tensors_of_four_channels_and_no_pictures(place: Path) -> None:
    transform = hba.load_policy(place / "run-4" / "policy.json").transform()
    image = of_channels(1, 4).images[0]
    torch.manual_seed(0)
    assert {tuple(transform(image).shape) for _ in range(10)} == {(4, 8, 8)}
    with pytest.raises(HbaError, match="a fill of 4 numbers is for images of 4 channels, got 3"):
        transform(Image.new("RGB", (8, 8)))
