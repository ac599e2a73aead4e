"""A few images kept beside a run: which they are, and that every pixel comes back."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from mask_folders import evaluation_data
from PIL import Image

from hba.config.evaluation import EvaluationConfig
from hba.data import LabelledImages, SearchData
from hba.data.load import load_evaluation_data
from hba.report.examples import together
from hba.report.samples import NATIVE_NAME, SAMPLES_NAME, Samples
from hba.schedule.recipes import RECIPES


def images_of(labels: list[int], channels: int = 3) -> LabelledImages:
    """Image number n is of level n."""
    levels = torch.arange(len(labels), dtype=torch.uint8)[:, None, None, None]
    return LabelledImages(
        levels.expand(-1, channels, 2, 3).contiguous(), torch.tensor(labels)
    )


def test_images_are_of_as_many_classes_as_possible() -> None:
    for labels, chosen in (
        ([0, 1], [0, 1]),
        ([*range(15)], [0, 2, 4, 6, 8, 10, 12, 14]),
        ([2] * 20 + [0, 1], [20, 21, 0, 1, 2, 3, 4, 5]),
    ):
        images = images_of(labels)
        names = tuple(f"class {number}" for number in range(15))
        samples = Samples.of(SearchData("", names, images, images))
        kept = samples[SAMPLES_NAME]
        assert [int(image.max()) for image in kept.images] == chosen
        assert kept.class_names == tuple(f"class {labels[number]}" for number in chosen)
        assert NATIVE_NAME not in samples


def test_native_images_show_what_the_small_ones_show(tmp_path: Path) -> None:
    for number in range(12):
        path = tmp_path / "train" / "ab"[number // 6] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (40, 30), 20 * number).save(path)
        if number in (1, 8):
            path.write_bytes(b"broken")
    config = EvaluationConfig.make(
        {"data": str(tmp_path), "image_size": 8, "skip_broken": True}
    )
    data = load_evaluation_data(config)
    kept = Samples.of(data)
    small = kept[SAMPLES_NAME]
    native = kept[NATIVE_NAME]
    assert [*native.images[0].shape] == [3, 30, 30]
    assert [int(image.max()) for image in small.images] == [
        int(image.max()) for image in native.images
    ]
    assert NATIVE_NAME not in Samples.of(replace(data, train_pool=None))


@pytest.mark.parametrize("channels", [1, 3])
def test_a_file_gives_back_every_pixel_and_every_name(
    channels: int, tmp_path: Path
) -> None:
    images = torch.randint(0, 256, (3, channels, 5, 4), dtype=torch.uint8)
    samples = Samples(tuple(images), ("é\udcff", "<b>", ""))
    samples.save(tmp_path / "new" / "samples.png")
    loaded = Samples.load(tmp_path / "new" / "samples.png")
    assert torch.equal(torch.stack(loaded.images), images)
    assert loaded.class_names == samples.class_names


def test_masks_are_kept_with_their_images(tmp_path: Path) -> None:
    samples = Samples.of(evaluation_data())[SAMPLES_NAME]
    assert samples.masks is not None
    for image, mask in zip(samples.images, samples.masks, strict=True):
        assert torch.equal(image.float().mean(0) > 100, mask == 1)
    samples.save(tmp_path / "samples.png")
    loaded = Samples.load(tmp_path / "samples.png")
    assert loaded.masks is not None
    assert torch.equal(torch.stack(loaded.masks), torch.stack(samples.masks))
    assert torch.equal(torch.stack(loaded.images), torch.stack(samples.images))
    assert {*samples.class_names} == {"ground, square"}


def test_pictures_of_masks_move_with_the_images() -> None:
    """The squares of the images are where their classes have a color."""
    samples = Samples.of(evaluation_data())[SAMPLES_NAME]
    schedule = RECIPES["flip"].make()
    pictures = together(schedule, samples, None)
    assert len(pictures) > 2
    for _, _, picture, _ in pictures:
        red, green, _ = picture
        is_colored = red > green + 0.2
        is_bright = red > 0.4
        assert is_colored.any()
        assert torch.equal(is_colored, is_bright)
