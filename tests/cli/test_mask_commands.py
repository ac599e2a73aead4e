"""hba train and hba predict with masks."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import refusal_of, run, said
from mask_folders import write_folder
from PIL import Image
from sklearn.metrics import jaccard_score
from torch import nn

import hba


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of images with masks, and one of a network that finds bright pixels."""
    folder = tmp_path_factory.mktemp("masks")
    for split, seed in (("train", 0), ("test", 1)):
        write_folder(folder / "squares" / split, seed=seed)
    hba.train(
        "flip",
        folder / "squares",
        network=nn.Sequential(nn.BatchNorm2d(3), nn.Conv2d(3, 2, 1)),
        out=folder / "run",
        image_size=16,
        epochs=8,
        batch_size=8,
        learning_rate=0.3,
        device="cpu",
    )
    return folder


def write_wide_image(path: Path) -> np.ndarray:
    """An image of 48 x 24 pixels with a bright part, which is returned, bool (H, W)."""
    is_bright = np.zeros((24, 48), dtype=bool)
    is_bright[3:15, 9:30] = True
    levels = np.where(is_bright, 200, 50).astype(np.uint8)
    Image.fromarray(levels[..., None].repeat(3, 2)).save(path)
    return is_bright


def test_a_mask_has_the_size_of_its_image(trained: Path, tmp_path: Path) -> None:
    network = hba.load_network(trained / "run")
    is_bright = write_wide_image(tmp_path / "wide.png")
    mask = network.mask(tmp_path / "wide.png")
    assert mask.dtype == np.uint8
    assert mask.shape == is_bright.shape
    assert jaccard_score(is_bright.flatten(), mask.flatten()) > 0.8
    assert np.array_equal(network.mask(Image.open(tmp_path / "wide.png")), mask)
    probabilities = network.predict(tmp_path / "wide.png")
    assert probabilities.shape == (1, 2, 16, 16)
    torch.testing.assert_close(probabilities.sum(1), torch.ones(1, 16, 16))


def test_predict_writes_masks_and_pictures(trained: Path, tmp_path: Path) -> None:
    images = trained / "squares" / "test" / "images"
    write_wide_image(tmp_path / "wide.png")
    (tmp_path / "broken.png").write_bytes(b"no image")
    out = tmp_path / "out"
    arguments = ["predict", str(trained / "run"), str(images)]
    said(*arguments, str(tmp_path / "wide.png"), "--out", str(out))
    assert {path.name for path in out.iterdir()} == {
        f"{path.stem}{ending}"
        for path in (*images.iterdir(), tmp_path / "wide.png")
        for ending in (".png", ".overlay.jpg")
    }
    network = hba.load_network(trained / "run")
    for path in (*images.iterdir(), tmp_path / "wide.png"):
        written = Image.open(out / f"{path.stem}.png")
        assert written.mode == "P"
        assert np.array_equal(np.asarray(written), network.mask(path))
        with Image.open(out / f"{path.stem}.overlay.jpg") as picture:
            assert picture.size == written.size
    result = run(*arguments, str(tmp_path / "broken.png"), "--out", str(out), "--json")
    assert result.exit_code == 2
    printed = json.loads(result.stdout)
    assert len(printed["images"]) == len([*images.iterdir()])
    assert len(printed["left_out"]) == 1
    for entry in printed["images"]:
        assert sum(entry["shares"].values()) == pytest.approx(1)


def test_predict_needs_a_folder_for_masks(trained: Path, tmp_path: Path) -> None:
    image = str(tmp_path / "wide.png")
    write_wide_image(tmp_path / "wide.png")
    assert "--out" in refusal_of("predict", str(trained / "run"), image)


def test_predict_does_not_replace_images(trained: Path, tmp_path: Path) -> None:
    write_wide_image(tmp_path / "wide.png")
    before = (tmp_path / "wide.png").read_bytes()
    arguments = ["predict", str(trained / "run"), str(tmp_path / "wide.png")]
    assert "replace" in refusal_of(*arguments, "--out", str(tmp_path))
    assert (tmp_path / "wide.png").read_bytes() == before


def test_the_page_of_a_run_shows_masks(trained: Path) -> None:
    page = (trained / "run" / "report.html").read_text(encoding="utf-8")
    assert "moved masks" in page
