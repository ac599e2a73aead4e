"""A few images kept beside a run: which they are, and that every pixel comes back."""

from pathlib import Path

import pytest
import torch

from hba.data import LabelledImages
from hba.report.samples import Samples


def images_of(labels: list[int], channels: int = 3) -> LabelledImages:
    """Image number n is of level n."""
    levels = torch.arange(len(labels), dtype=torch.uint8)[:, None, None, None]
    return LabelledImages(levels.expand(-1, channels, 2, 3).contiguous(), torch.tensor(labels))


def test_images_are_evenly_spaced() -> None:
    for n, chosen in ((2, [0, 1]), (10, [0, 3, 6, 9])):
        samples = Samples.of(images_of(list(range(n))), [f"class {number}" for number in range(10)])
        assert [int(image.max()) for image in samples.images] == chosen
        assert samples.class_names == tuple(f"class {number}" for number in chosen)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_file_gives_back_every_pixel_and_every_name(channels: int, tmp_path: Path) -> None:
    images = torch.randint(0, 256, (3, channels, 5, 4), dtype=torch.uint8)
    samples = Samples(tuple(images), ("é\udcff", "<b>", ""))
    samples.save(tmp_path / "new" / "samples.png")
    found = Samples.load(tmp_path / "new" / "samples.png")
    assert torch.equal(torch.stack(found.images), images)
    assert found.class_names == samples.class_names
