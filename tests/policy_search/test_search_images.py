"""Searches on images of four channels and of several labels, from the file to the
report and an evaluation.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

import hba
from hba.data import LabelledImages
from hba.errors import HbaError, SettingsError
from hba.operations import OPERATIONS
from hba.tasks import MultiLabel

FITTING = ",".join(
    operation.name for operation in OPERATIONS.values() if operation.any_channels
)
SETTINGS: dict[str, Any] = {
    "model": "wrn-10-1",
    "epochs": 2,
    "batch_size": 16,
    "device": "cpu",
    "space": "hba",
    "train_steps": 1,
}


def make_images(n_images: int, n_channels: int) -> LabelledImages:
    """8x8; class 1 is brighter in the last channel alone."""
    images = torch.randint(
        0, 120, (n_images, n_channels, 8, 8), generator=torch.Generator().manual_seed(0)
    )
    labels = torch.arange(n_images) % 2
    images[labels == 1, -1] += 100
    return LabelledImages(images.to(torch.uint8), labels)


def pairs_of_digits(n_images: int) -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's digits side by side, uint8 (n_images, 16, 16), and 0 or 1 for each
    digit (n_images, 10); one in eight is noise without label.
    """
    digits = load_digits()
    random = np.random.default_rng(0)
    levels = np.round(digits.images * (255 / 16)).astype(np.uint8)
    chosen = random.integers(0, len(levels), (n_images, 2))
    images = np.zeros((n_images, 16, 16), np.uint8)
    labels = np.zeros((n_images, 10), np.int64)
    images[:, 4:12, :8] = levels[chosen[:, 0]]
    images[:, 4:12, 8:] = levels[chosen[:, 1]]
    labels[np.arange(n_images)[:, None], digits.target[chosen]] = 1
    images[::8] = random.integers(0, 256, images[::8].shape)
    labels[::8] = 0
    return images, labels


def test_images_of_four_channels_are_searched_on_and_evaluated(tmp_path: Path) -> None:
    images = make_images(80, 4)
    file = tmp_path / "4.npz"
    np.savez(
        file,
        images=images.images.permute(0, 2, 3, 1).numpy(),
        labels=images.labels.numpy(),
    )
    with pytest.raises(SettingsError, match=f"got 4; .*--operations {FITTING}$"):
        hba.search(file, operations=f"Color,{FITTING}", **SETTINGS)
    hba.search(file, out=tmp_path / "run", image_size=8, **SETTINGS)
    schedule = hba.load_policy(tmp_path / "run")
    assert ",".join(row.name for row in schedule.space.operations) == FITTING
    assert len(schedule.fill) == 4
    assert schedule.fill[-1] > schedule.fill[0] + 0.1, (
        "the last channel is brighter in half of the images"
    )
    image = make_images(1, 4).images[0]
    torch.manual_seed(0)
    assert schedule.transform()(image).shape == (4, 8, 8)
    with pytest.raises(HbaError, match="4 channels, got 3"):
        schedule.transform()(Image.new("RGB", (8, 8)))
    names = ["none", "randaugment", "three-augment", "cutout", "static"]
    evaluation = hba.evaluate(tmp_path / "run", against=names, seeds=1, epochs=1)
    assert [row.name for row in evaluation.rows] == ["run", *names]


def test_a_recipe_for_five_channels_lacks_operations_on_color_only() -> None:
    recipe = hba.load_policy("photo")
    assert recipe.for_channels(3) is recipe
    assert recipe.for_channels(1) is recipe
    policy = recipe.for_channels(5)
    names = {row.name for row in recipe.space.operations}
    left = {row.name for row in policy.space.operations}
    assert names - left == {"Color", "Contrast"}
    by_name = dict(zip(recipe.space.names, recipe.values[0], strict=True))
    for name, value in zip(policy.space.names, policy.values[0], strict=True):
        assert value == by_name[name]


@pytest.mark.slow
def test_images_of_five_channels_have_an_answer(tmp_path: Path) -> None:
    images = make_images(300, 5)
    pixels = images.images.permute(0, 2, 3, 1).numpy()
    np.savez(tmp_path / "5.npz", images=pixels, labels=images.labels.numpy())
    settings: dict[str, Any] = {"image_size": 8, "epochs": 2, "device": "cpu"}
    result = hba.auto(
        tmp_path / "5.npz", budget_seconds=60, out=tmp_path / "run", jobs=1, **settings
    )
    assert result.finished
    assert len(result.policy.fill) == 5
    assert all(row.any_channels for row in result.policy.space.operations)
    network = hba.load_network(tmp_path / "run")
    assert network.predict(images.images).shape == (300, 2)


def test_images_of_several_labels_are_searched_on_and_evaluated(tmp_path: Path) -> None:
    settings = {
        **SETTINGS,
        "image_size": 16,
        "batch_size": 32,
        "epochs": 8,
        "learning_rate": 0.1,
    }
    images, labels = pairs_of_digits(300)
    np.savez(tmp_path / "pairs.npz", images=images, labels=labels)
    result = hba.search(
        tmp_path / "pairs.npz", out=tmp_path / "run", **{**settings, "train_steps": 4}
    )
    first, last = (
        row["val_error_percent"] for row in (result.metrics[0], result.metrics[-1])
    )
    assert first is not None
    assert last is not None
    assert last < first - 5, "it learns"
    assert hba.load_policy(tmp_path / "run").provenance["error"] == MultiLabel.error
    assert str(MultiLabel.error) in (tmp_path / "run" / "report.html").read_text()
    evaluation = hba.evaluate(tmp_path / "run", against=["cutout"], seeds=1, epochs=1)
    assert np.isfinite([row.test_error_percent for row in evaluation.rows]).all()
