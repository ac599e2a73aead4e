"""Arrays of other than 1 or 3 channels: which axis has them, one scale for all, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from channels import file_of, of_channels
from in_memory import in_memory
from PIL import Image
from torchvision.transforms.v2 import functional as TF

from hba.data import LabelledImages, from_dataset, load_evaluation_data, load_search_data
from hba.data.config import DataConfig
from hba.data.npz import npz_source
from hba.errors import DataError


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)


@pytest.mark.parametrize("n_channels", [2, 4, 5])
def test_channels_may_come_first_or_last(tmp_path: Path, n_channels: int) -> None:
    last = noise(20, 8, 8, n_channels)
    expected = torch.from_numpy(last).permute(0, 3, 1, 2)
    labels = np.arange(20) % 2
    for images in (last, last.transpose(0, 3, 1, 2)):
        assert torch.equal(LabelledImages(torch.from_numpy(images.copy()), torch.from_numpy(labels)).images, expected)
        np.savez(tmp_path / "a.npz", images=images, labels=np.zeros(20, int) + (np.arange(20) >= 10))
        assert torch.equal(npz_source(tmp_path / "a.npz").train.read(np.arange(20), 8).images, expected)


@pytest.mark.parametrize("shape", [(20, 8, 8, 8), (20, 65, 70, 66), (20, 12, 8, 16), (20, 0, 8, 8)])
def test_a_shape_that_leaves_it_open_is_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"images must have the shape .* fewer channels than pixels a side, at most 64"):
        LabelledImages(torch.zeros(shape, dtype=torch.uint8), torch.arange(20) % 2)
    np.savez(tmp_path / "a.npz", images=np.zeros(shape, np.uint8), labels=np.arange(20) % 2)
    with pytest.raises(DataError, match=r"images of .* must have the shape .* fewer channels than pixels a side"):
        npz_source(tmp_path / "a.npz").train.read(np.arange(20), 8)


def test_each_channel_is_resized_as_pil_resizes_a_grey_image(tmp_path: Path) -> None:
    images = noise(4, 20, 30, 4)
    np.savez(tmp_path / "a.npz", images=images, labels=[0, 0, 1, 1])
    read = npz_source(tmp_path / "a.npz").train.read(np.arange(4), 8).images
    for image, found in zip(images, read, strict=True):
        for channel, pixels in zip(np.moveaxis(image, 2, 0), found, strict=True):
            expected = TF.pil_to_tensor(TF.resize(Image.fromarray(channel), [8, 12], antialias=True))
            assert torch.equal(pixels, TF.center_crop(expected, [8, 8])[0])


def test_levels_of_16_bits_have_one_scale_for_all_channels(tmp_path: Path) -> None:
    config = DataConfig.make({"data": str(file_of(tmp_path, 40, 4, "uint16")), "image_size": 8})
    data = load_search_data(config)
    assert data.levels == (0, 65535)
    assert data.train.n_channels == 4
    eight_bits = file_of(tmp_path, 40, 4)
    of_8_bits = load_search_data(DataConfig.make({"data": str(eight_bits), "image_size": 8}))
    difference = in_memory(data.train).images.int() - in_memory(of_8_bits.train).images.int()
    assert difference.abs().max() <= 1, "256 of 65536 levels are 1 of 256, to rounding"


def test_mean_and_deviation_are_those_of_each_channel(tmp_path: Path) -> None:
    config = DataConfig.make({"data": str(file_of(tmp_path, 40, 5)), "image_size": 8})
    train = load_evaluation_data(config).train
    pixels = in_memory(train).images.double() / 255
    assert train.mean_color() == pytest.approx(pixels.mean(dim=(0, 2, 3)).tolist(), abs=1e-6)
    assert train.std_color() == pytest.approx(pixels.std(dim=(0, 2, 3), correction=0).tolist(), abs=1e-6)


def test_images_of_a_dataset_are_no_pictures_with_four_channels() -> None:
    """PIL would take the fourth for transparency."""
    images = of_channels(4, 4)
    pairs: list[Any] = list(zip(images.images, images.labels.tolist(), strict=True))
    with pytest.raises(DataError, match="number 0 of the dataset: it has 4 channels; give images of other than 1 or 3"):
        from_dataset(pairs, image_size=8)
