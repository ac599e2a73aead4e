"""Searches on images of four channels and of several labels, from the file to the report and an evaluation."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from channels import file_of, of_channels
from pairs_of_digits import pairs_file
from PIL import Image

import hba
from hba.data.labels import MULTI_LABEL_ERROR
from hba.errors import HbaError, SettingsError
from hba.operations import OPERATIONS

FITTING = ",".join(operation.name for operation in OPERATIONS.values() if operation.any_channels)
SETTINGS: dict[str, Any] = {"model": "wrn-10-1", "epochs": 2, "batch_size": 16, "device": "cpu", "train_steps": 1}


def test_images_of_four_channels_are_searched_on_and_evaluated(tmp_path: Path) -> None:
    file = file_of(tmp_path, 80, 4)
    with pytest.raises(SettingsError, match=f"got 4; .*--operations {FITTING}$"):
        hba.search(file, **SETTINGS)
    hba.search(file, out=tmp_path / "run", image_size=8, operations=FITTING, **SETTINGS)
    schedule = hba.load_policy(tmp_path / "run")
    assert len(schedule.fill) == 4
    assert schedule.fill[-1] > schedule.fill[0] + 0.1, "the last channel is brighter in half of the images"
    image = of_channels(1, 4).images[0]
    torch.manual_seed(0)
    assert schedule.transform()(image).shape == (4, 8, 8)
    with pytest.raises(HbaError, match="4 channels, got 3"):
        schedule.transform()(Image.new("RGB", (8, 8)))
    found = hba.evaluate(tmp_path / "run", against=["none", "cutout", "shuffled"], seeds=1, epochs=1)
    assert [row.name for row in found.rows] == ["run", "none", "cutout", "shuffled"]


def test_images_of_several_labels_are_searched_on_and_evaluated(tmp_path: Path) -> None:
    settings = {**SETTINGS, "image_size": 16, "batch_size": 32, "epochs": 8, "learning_rate": 0.1}
    result = hba.search(pairs_file(tmp_path, 300), out=tmp_path / "run", **{**settings, "train_steps": 4})
    first, last = (row["val_error_percent"] for row in (result.metrics[0], result.metrics[-1]))
    assert first is not None
    assert last is not None
    assert last < first - 5, "it learns"
    assert hba.load_policy(tmp_path / "run").provenance["error"] == MULTI_LABEL_ERROR
    assert MULTI_LABEL_ERROR in (tmp_path / "run" / "report.html").read_text()
    found = hba.evaluate(tmp_path / "run", against=["cutout"], seeds=1, epochs=1)
    assert np.isfinite([row.test_error_percent for row in found.rows]).all()
