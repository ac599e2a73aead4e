"""Crops of random size and shape, against torchvision's; the crop from the centre."""

import math

import pytest
import torch
from each import each
from torch import Tensor
from torchvision.transforms import RandomResizedCrop
from torchvision.transforms.v2 import functional as TF

from hba.preprocessing.baseline import center_crop, random_boxes, resized_crop


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise(batch: int, height: int, width: int) -> Tensor:
    return torch.rand(batch, 3, height, width, generator=generator(9))


@each(
    ("box", "size"),
    [
        ((0, 0, 12, 10), 12), ((2, 3, 6, 6), 6), ((1, 2, 4, 4), 12), ((1, 2, 4, 4), 8), ((8, 6, 4, 4), 4),
        ((3, 1, 5, 7), 9), ((0, 9, 12, 1), 5), ((11, 0, 1, 1), 3), ((0, 0, 12, 10), 5),
    ],
)  # fmt: skip
def test_a_box_is_cut_out_and_resized_as_torchvision_does_without_antialiasing(
    box: tuple[int, int, int, int], size: int
) -> None:
    images = noise(2, 12, 10)
    expected = TF.resized_crop(images, *box, [size, size], antialias=False)
    torch.testing.assert_close(resized_crop(images, torch.tensor([box, box]), size), expected, atol=1e-5, rtol=0)


def test_boxes_are_whole_lie_within_the_image_and_have_the_areas_and_shapes_asked_for() -> None:
    height, width = 96, 96
    boxes = random_boxes(20_000, height, width, generator()).double()
    assert torch.equal(boxes, boxes.round())
    top, left, h, w = boxes.T
    assert float(boxes[:, :2].min()) == 0
    assert bool(((top + h <= height) & (left + w <= width)).all())
    # The last row and column are reached, not only by boxes of the full size.
    assert float((top + h)[h < height].max()) == float((left + w)[w < width].max()) == height
    share, log_ratio = h * w / (height * width), (w / h).log()
    assert float(share.min()) > 0.07
    assert float(share.max()) == 1
    # Sides are rounded to whole pixels, the shortest are 23.
    assert float(log_ratio.abs().max()) < math.log(4 / 3) + 2 * 0.5 / 23
    assert float(log_ratio.mean()) == pytest.approx(0, abs=0.01)
    assert float(top.mean()) == pytest.approx(float((height - h).mean()) / 2, abs=0.4)
    assert float(left.mean()) == pytest.approx(float((width - w).mean()) / 2, abs=0.4)


@each(("height", "width"), [(64, 64), (40, 48)])
def test_boxes_are_distributed_as_torchvisions(height: int, width: int) -> None:
    n = 4000
    ours = random_boxes(n, height, width, generator()).double()
    torch.manual_seed(0)
    drawn = [RandomResizedCrop.get_params(torch.empty(3, height, width), (0.08, 1.0), (3 / 4, 4 / 3)) for _ in range(n)]
    theirs = torch.tensor([list(box) for box in drawn]).double()
    spread = (ours.var(dim=0) + theirs.var(dim=0)).sqrt() / n**0.5
    assert bool(((ours.mean(dim=0) - theirs.mean(dim=0)).abs() < 5 * spread).all())
    torch.testing.assert_close(ours.std(dim=0), theirs.std(dim=0), rtol=0.06, atol=0)


@each(("full", "size"), [(256, 224), (16, 14), (9, 8), (8, 8)])
def test_the_center_is_torchvisions(full: int, size: int) -> None:
    images = noise(2, full, full)
    assert torch.equal(center_crop(images, size), TF.center_crop(images, [size, size]))
