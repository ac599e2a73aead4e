"""Policies of AutoAlbument: rates by hand, and pixels against albumentations' own transforms."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from autoalbument_files import POLICY, leaf, lit, moved, one_of, pipeline, sequential

import hba
from hba.errors import ScheduleError
from hba.operations import OPERATIONS
from hba.schedule.schedule import Schedule


def imported(tmp_path: Path, content: Any) -> Schedule:
    path = tmp_path / "policy.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return hba.import_policy("autoalbument", path)


def test_rates_are_weights_of_sequentials_times_those_of_transforms(tmp_path: Path) -> None:
    schedule = imported(tmp_path, POLICY)
    noted = schedule.provenance
    expected = {
        "Rotate": 0.25 * 0.2,
        "Solarize": 0.25 * 0.25,
        "Brightness": 0.25 * 0.5 + 0.75 * 0.4,
        "TranslateX": 0.75 * 0.4,
        "Cutout": 0.75 * 0.5,
    }
    lost = {"VerticalFlip": 0.25 * 0.3, "Scale": 0.75 * 0.2, "CoarseDropout": 0.75 * 0.1}
    total = sum(expected.values()) + sum(lost.values())
    assert noted["rates"] == pytest.approx(expected)
    assert noted["left_out"] == pytest.approx({name: rate / total for name, rate in lost.items()})
    assert noted["largest_rate_difference"] < 5e-6
    assert noted["widened"] == {"TranslateX": [0.0, 0.9], "Rotate": [0.0, 60.0]}
    row = dict(zip(schedule.space.names, schedule.values[0], strict=True))
    assert (row["Rotate.1.magnitude"], row["Solarize.2.magnitude"], row["Cutout.1.magnitude"]) == (60, 200, 1 / 16)
    # Two applications of three have the factor 1 + 2 x 0.25, the others 1.5 too.
    assert row["Brightness.1.magnitude"] == 1.5
    assert {one.interpolation for one in schedule.space.operations if one.moves_pixels} == {"bilinear"}


def test_contrast_multiplies_levels_as_the_transform_does(tmp_path: Path) -> None:
    library = pytest.importorskip("albumentations")
    pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    batch = torch.from_numpy(pixels).permute(2, 0, 1)[None] / 255
    for contrast in (-0.7, 0.3, 0.8):
        schedule = imported(tmp_path, pipeline(sequential(1.0, one_of(lit(1.0, contrast=contrast)))))
        row = dict(zip(schedule.space.names, schedule.values[0], strict=True))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = library.RandomBrightnessContrast(
                brightness_limit=(0, 0), contrast_limit=(contrast, contrast), p=1.0
            )
        ours = OPERATIONS["Brightness"](batch, torch.tensor([row["Brightness.1.magnitude"]], dtype=torch.float32))
        expected = theirs(image=pixels)["image"].astype(float)
        assert np.abs(ours[0].permute(1, 2, 0).numpy() * 255 - expected).max() <= 1.5


def test_shares_as_thresholds_no_change_and_unknown_transforms(tmp_path: Path) -> None:
    schedule = imported(tmp_path, pipeline(sequential(1.0, one_of(leaf("Solarize", 1.0, threshold=[0.5, 0.5])))))
    assert schedule.values[0][schedule.space.names.index("Solarize.1.magnitude")] == 127.5
    first = one_of(moved(0.5), lit(0.25), leaf("Rotate", 0.25, limit=[5, 5]))
    second = one_of(lit(0.5, 0.5, 0.5), moved(0.25, rotate_limit=9, scale_limit=2), moved(0.25, shift_limit_y=0.1))
    noted = imported(tmp_path, pipeline(sequential(1.0, first, second))).provenance
    assert noted["rates"] == {"TranslateY": 0.25}
    left = {"albumentations.Rotate": 0.2, "RandomBrightnessContrast": 0.4, "ShiftScaleRotate": 0.2}
    assert noted["left_out"] == pytest.approx(left)


def test_what_is_no_such_pipeline_is_refused_in_one_line(tmp_path: Path) -> None:
    for content in (
        "nothing",
        "[1]",
        {"transform": {"__class_fullname__": "Compose"}},
        pipeline(sequential(0.0, one_of(leaf("Equalize", 1.0)))),
        pipeline(sequential(1.0, leaf("Solarize", 1.0))),
        pipeline(sequential(1.0, one_of(leaf("Solarize", 1.0)))),
        pipeline(sequential(1.0, one_of(leaf("Solarize", 1.0, threshold=[1, 2])))),
        pipeline(sequential(1.0, one_of(leaf("HorizontalFlip", 1.0)))),
    ):
        with pytest.raises(ScheduleError, match=r"policy\.json cannot be read as a policy of") as raised:
            imported(tmp_path, content)
        assert "\n" not in str(raised.value)
