"""Flips, turns, affine maps and crops: as PIL, PyTorch and torchvision do them."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from random_inputs import drawn_magnitudes, seeded
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import RandomCrop, functional as TF

from hba.operations import STAGED, Operation, on_pil
from hba.packed import apply_to_all, apply_to_images

N_DRAWS = 10_000
MOVES = (
    "HorizontalFlip",
    "VerticalFlip",
    "QuarterTurn",
    "ResizedCrop",
    "Zoom",
    "Shear",
    "Rotation",
    "PaddedCrop",
)
FILL = torch.tensor([0.2, 0.6, 1.0])


def images(batch: int, height: int = 12, width: int = 12) -> Tensor:
    return (
        torch.rand(batch, 3, height, width, generator=seeded(3)).mul(255).round() / 255
    )


def uniforms(operation: Operation, batch: int, seed: int = 5) -> Tensor:
    return torch.rand(batch, operation.n_uniforms, generator=seeded(seed))


def test_flips_and_turns_are_those_of_pytorch() -> None:
    batch = images(3)
    assert torch.equal(STAGED["HorizontalFlip"](batch), batch.flip(3))
    assert torch.equal(STAGED["VerticalFlip"](batch), batch.flip(2))
    turned = STAGED["QuarterTurn"](batch, position=torch.tensor([[0.1], [0.5], [0.9]]))
    assert torch.equal(
        turned,
        torch.stack(
            [image.rot90(times, (1, 2)) for times, image in enumerate(batch, 1)]
        ),
    )


@pytest.mark.parametrize("name", MOVES)
def test_batches_packed_images_arrays_and_pil_agree(name: str) -> None:
    operation = STAGED[name]
    batch = 64
    before = images(batch, 12, 12)
    drawn = uniforms(STAGED[name], batch)
    strong = (
        None
        if operation.magnitude_range is None
        else drawn_magnitudes(
            operation,
            operation.magnitude_range[1],
            torch.rand(batch, generator=seeded(7)),
        )
    )
    of_floats = operation(before, strong, fill=FILL, position=drawn)
    chosen = torch.zeros(batch, 1, dtype=torch.long)
    magnitudes = torch.zeros(batch, 1) if strong is None else strong[:, None]
    levels = before.mul(255).round().to(torch.uint8)
    of_bytes = apply_to_images(
        [operation], (chosen, magnitudes, drawn[:, None]), levels, FILL
    )
    # PIL interpolates in whole numbers.
    assert (of_bytes.int() - of_floats.mul(255).round().int()).abs().max() <= (
        1 if name == "ResizedCrop" else 0
    )
    fill = tuple(round(255 * level) for level in FILL.tolist())
    for number in range(batch):
        picture = TF.to_pil_image(levels[number])
        by_pil = operation.apply_to_pil(
            picture, float(magnitudes[number]), fill, tuple(drawn[number].tolist())
        )
        assert np.array_equal(
            np.asarray(by_pil), of_bytes[number].permute(1, 2, 0).numpy()
        ), (name, number)
        drawn_for_one = [
            (operation, float(magnitudes[number]), tuple(drawn[number].tolist()))
        ]
        assert torch.equal(
            apply_to_all(drawn_for_one, levels[number : number + 1], FILL)[0],
            of_bytes[number],
        )


def test_a_resized_crop_is_pil_s_resize_of_a_box_in_the_drawn_bounds() -> None:
    operation = STAGED["ResizedCrop"]
    least = 0.3
    drawn = uniforms(operation, N_DRAWS).double()
    numbers = torch.rand(N_DRAWS, generator=seeded(6))
    areas = drawn_magnitudes(operation, least, numbers).double()
    coefficients = operation.function(areas, 32, 32, drawn)
    across, down, left, top = (coefficients[name] for name in ("a", "e", "c", "f"))
    area = across * down
    ratio = across / down
    assert area.min() >= least
    assert area.max() <= 1
    assert ratio.min() >= 0.75 - 1e-9
    assert ratio.max() <= 4 / 3 + 1e-9
    # The area is uniform, and the corner uniform in what the crop leaves.
    assert abs(area.mean() - 0.65) < 0.01
    assert abs(((area - least) / 0.7 < 0.25).double().mean() - 0.25) < 0.02
    assert left.min() >= 0
    assert (left / 32 + across).max() <= 1 + 1e-9
    assert (top / 32 + down).max() <= 1 + 1e-9
    picture = TF.to_pil_image(images(1, 32, 32)[0])
    first = tuple(drawn[0].tolist())
    result = operation.apply_to_pil(picture, float(areas[0]), (0, 0, 0), first)
    box = tuple(
        float(edges[0]) for edges in (left, top, left + across * 32, top + down * 32)
    )
    extent = picture.transform(
        picture.size, Image.Transform.EXTENT, box, Image.Resampling.BILINEAR
    )
    assert np.abs(np.asarray(result).astype(int) - np.asarray(extent)).max() <= 1


def test_a_padded_crop_shifts_as_torchvision_s_does() -> None:
    operation = STAGED["PaddedCrop"]
    padding = 3
    before = images(1, 12, 12).repeat(200, 1, 1, 1)
    drawn = uniforms(STAGED["PaddedCrop"], 200)
    shifted = operation(
        before, torch.full((200,), padding / 12), fill=FILL, position=drawn
    )
    padded = TF.pad(before[0], [padding] * 4, fill=FILL.tolist())
    places = {
        (y, x): TF.crop(padded, y, x, 12, 12)
        for y, x in product(range(2 * padding + 1), repeat=2)
    }
    shown = [
        next(
            place for place, expected in places.items() if torch.equal(expected, image)
        )
        for image in shifted
    ]
    assert {y for y, _ in shown} == {x for _, x in shown} == set(range(7))
    assert RandomCrop(12, padding=padding)(before[0]).shape == shifted[0].shape


AFFINE: dict[str, tuple[float, Callable[[float], dict[str, Any]]]] = {
    "Zoom": (0.5, lambda u: {"scale": 1 + 0.5 * (2 * u - 1)}),
    "Shear": (45.0, lambda u: {"shear": [45 * (2 * u - 1), 0.0]}),
    # torchvision's affine turns clockwise.
    "Rotation": (45.0, lambda u: {"angle": 45 * (1 - 2 * u)}),
}


@pytest.mark.parametrize("name", AFFINE)
@pytest.mark.parametrize(("height", "width"), [(32, 32), (33, 20), (1, 9)])
def test_affine_maps_show_torchvision_s_pixels(
    name: str, height: int, width: int
) -> None:
    """The same image through many maps: all pixels of its nearest neighbour."""
    (largest, arguments), operation, batch = AFFINE[name], STAGED[name], 60
    before = images(1, height, width)
    drawn = torch.rand(batch, generator=seeded(5))
    magnitudes = drawn_magnitudes(operation, largest, drawn)
    results = operation(before.repeat(batch, 1, 1, 1), magnitudes, fill=FILL)
    picture = TF.to_pil_image(before[0])
    fill = [round(255 * level) for level in FILL.tolist()]
    for number, image in enumerate(results):
        moves = {
            "angle": 0.0,
            "translate": [0, 0],
            "scale": 1.0,
            "shear": [0.0, 0.0],
            **arguments(float(drawn[number])),
        }
        expected = TF.affine(
            picture, **moves, interpolation=InterpolationMode.NEAREST, fill=fill
        )
        assert torch.equal(image.mul(255).round().byte(), TF.pil_to_tensor(expected)), (
            number
        )


@pytest.mark.parametrize(
    "name", ["ResizedCrop", "Zoom", "Shear", "Rotation", "PaddedCrop"]
)
def test_crops_at_their_identity_change_nothing(name: str) -> None:
    operation = STAGED[name]
    before = images(8)
    assert operation.neutral is not None
    result = operation(
        before,
        drawn_magnitudes(operation, operation.neutral, torch.rand(8)),
        fill=FILL,
        position=uniforms(operation, 8),
    )
    assert torch.allclose(result, before, atol=1e-6)


def test_an_image_that_is_not_square_is_turned_and_stretched() -> None:
    before = torch.zeros(1, 3, 10, 20)
    before[:, :, :, :5] = (
        1  # The left quarter; after a turn by 90 degrees, the lowest one.
    )
    turned = STAGED["QuarterTurn"](before, position=torch.tensor([[0.0]]))
    assert turned.shape == before.shape
    assert turned[:, :, 8:].mean() == 1
    assert turned[:, :, :7].mean() == 0
    for height, width, at in product((20, 12, 7), (10, 12, 31), (0.1, 0.5, 0.9)):
        before = images(1, height, width)
        by_pil = on_pil.quarter_turn_by_pil(
            TF.to_pil_image(before[0]), (at,), Image.Resampling.NEAREST
        )
        turned = STAGED["QuarterTurn"](before, position=torch.tensor([[at]]))
        assert torch.equal(
            turned[0].mul(255).round().byte(), TF.pil_to_tensor(by_pil)
        ), (height, width, at)
