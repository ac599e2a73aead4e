"""The policy on one PIL image, held against the policy on a batch of one."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from plain_rows import plain_row
from random_inputs import seeded
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from hba.errors import SettingsError
from hba.operations import OPERATIONS, STAGED, Operation
from hba.operations.apply import color_for, fill_for
from hba.operations.drawing import FIXED, SIGN
from hba.operations.on_pil import apply_to_pil
from hba.policy.draw import apply_operations, draw_with_trace, mean_probabilities
from hba.policy.player import OpSample, draw_for_one
from hba.policy.space import SearchSpace
from hba.policy.spaces import search_space

ENHANCERS = ("Contrast", "Color", "Brightness", "Sharpness")
EXACT = tuple(name for name in OPERATIONS if name not in ENHANCERS)
FILL = (0.2, 0.6, 0.9)
IN_THE_MIDDLE = (0.5, 0.5)
COUNTED = SearchSpace(
    copies=1, count_probabilities=(0.1, 0.2, 0.3, 0.4), searches_count=True
)
WITH_STAGES = SearchSpace(
    (
        STAGED["HorizontalFlip"],
        STAGED["ResizedCrop"],
        OPERATIONS["Rotate"],
        OPERATIONS["Invert"],
        STAGED["CutMix"],
    ),
    2,
    (0.2, 0.3, 0.5),
    searches_count=True,
)


def random_row(
    space: SearchSpace, seed: int, probability: float | None = None
) -> Tensor:
    """Values (n,) drawn from their ranges, float32; probabilities as given."""
    low, high = torch.tensor(space.ranges).unbind(1)
    row = torch.lerp(low, high, torch.rand(space.n, generator=seeded(seed)))
    if probability is not None:
        row[[name.endswith("probability") for name in space.names]] = probability
    return row


def photo(mode: str, seed: int, size: tuple[int, int] = (25, 18)) -> Image.Image:
    """Smooth waves with a little noise, width x height."""
    rng = np.random.default_rng(seed)
    x, y = np.meshgrid(np.arange(size[0]), np.arange(size[1]))
    planes = [
        128
        + 70 * np.sin(x / (3 + channel) + rng.random())
        + 40 * np.cos(y / 4 + channel)
        + rng.normal(0, 4, x.shape)
        for channel in range(len(mode))
    ]
    levels = np.stack(planes, axis=2).clip(0, 255).round().astype(np.uint8)
    return Image.fromarray(levels[:, :, 0] if mode == "L" else levels)


def levels_of(image: Image.Image) -> NDArray[np.int64]:
    return np.asarray(image).astype(np.int64)


def as_a_batch(
    space: SearchSpace, row: Tensor, image: Image.Image, seed: int
) -> NDArray[np.int64]:
    """What the policy on tensors makes of the image, as grey levels."""
    batch = TF.pil_to_tensor(image)[None].float() / 255
    draw = draw_with_trace(space, row, 1, seeded(seed))[0]
    result = (
        apply_operations(space, draw, batch, fill_for(batch, FILL))[0]
        .mul(255)
        .round()
        .to(torch.uint8)
    )
    return levels_of(TF.to_pil_image(result, mode=image.mode))


def on_pil(
    space: SearchSpace, row: Tensor, image: Image.Image, seed: int
) -> Image.Image:
    drawn = draw_for_one(plain_row(space, row), seeded(seed))
    return apply_to_pil(drawn, image, color_for(len(image.mode), FILL))


@pytest.mark.parametrize(
    "space",
    [SearchSpace(), search_space("pba"), COUNTED, WITH_STAGES],
    ids=["hba", "pba", "counted", "stages"],
)
@pytest.mark.parametrize("is_spread", [False, True])
def test_one_image_draws_what_a_batch_of_one_draws(
    space: SearchSpace, is_spread: bool
) -> None:
    """Magnitudes are as near as single precision allows.

    With a spread, of which a third of the columns has none, they move from the row.
    """
    n_operations = set()
    moved = 0
    for seed in range(75):
        generator = seeded(seed)
        row = random_row(space, seed)
        spread = 2 * torch.rand(space.n, generator=generator)
        spread *= torch.rand(space.n, generator=generator) < 2 / 3
        width = spread if is_spread else None
        means = mean_probabilities(space, row, width)
        sample = draw_with_trace(space, means, 1, seeded(seed), width)[0]
        drawn = draw_for_one(plain_row(space, row, width), seeded(seed))
        fired = sample.slots[0] >= 0
        slots = [space.slots[slot] for slot in sample.slots[0][fired].tolist()]
        assert [step.operation for step in drawn] == [slot.operation for slot in slots]
        positions = sample.positions[0][fired].tolist()
        for step, position in zip(drawn, positions, strict=True):
            assert step.position == tuple(position[: len(step.position)])
        magnitudes = sample.magnitudes[0][fired].tolist()
        precision = 1e-4 if is_spread else 1e-6
        assert [step.magnitude for step in drawn] == pytest.approx(
            magnitudes, rel=precision, abs=precision
        )
        bare = [
            0.0 if slot.magnitude is None else row[slot.magnitude].item()
            for slot in slots
        ]
        moved += sum(
            abs(abs(a) - abs(b)) > 0.01 * abs(b)
            for slot, a, b in zip(slots, bare, magnitudes, strict=True)
            if slot.operation.drawing in (FIXED, SIGN)
        )
        n_operations.add(len(slots))
    assert n_operations == set(range(len(space.steps) + 1))
    assert moved > 10 if is_spread else moved == 0


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_without_enhancers_pil_gives_exactly_the_pixels_of_the_batch(mode: str) -> None:
    space = search_space("hba", EXACT)
    changed = 0
    for seed in range(60):
        row = random_row(space, seed, probability=0.5)
        image = photo(mode, seed)
        before = levels_of(image)
        result = on_pil(space, row, image, seed)
        np.testing.assert_array_equal(
            levels_of(result), as_a_batch(space, row, image, seed)
        )
        assert (result.mode, result.size) == (image.mode, image.size)
        np.testing.assert_array_equal(levels_of(image), before)
        changed += not np.array_equal(levels_of(result), before)
    assert changed > 30


def test_enhancers_and_bilinear_moves_are_within_a_grey_level_of_the_batch() -> None:
    moves = [
        operation.with_interpolation("bilinear")
        for operation in OPERATIONS.values()
        if operation.moves_pixels
    ]
    for operation in (*(OPERATIONS[name] for name in ENHANCERS), *moves):
        space = SearchSpace((operation,), count_probabilities=(0.0, 1.0))
        for seed in range(10):
            row = random_row(space, seed, probability=1.0)
            image = photo("L" if seed % 2 else "RGB", seed)
            difference = levels_of(on_pil(space, row, image, seed)) - as_a_batch(
                space, row, image, seed
            )
            assert abs(difference).max() <= 1, operation.name


def test_nothing_drawn_is_a_copy() -> None:
    image = photo("RGB", 0)
    result = apply_to_pil([], image, FILL)
    assert result is not image
    assert result.tobytes() == image.tobytes()


def test_an_operation_that_knows_nothing_of_pil_gets_a_batch_of_one() -> None:
    def paint(
        images: Tensor, magnitude: Tensor, fill: Tensor, position: Tensor
    ) -> Tensor:
        assert images.shape == (1, 3, 18, 25)
        assert magnitude.tolist() == [0.25]
        assert position.tolist() == [[0.5, 0.5]]
        return images * 0 + fill[:, None, None] * magnitude[:, None, None, None]

    painted = Operation(
        "Paint", paint, (0.0, 1.0), "share", uses_fill=True, n_uniforms=2
    )
    drawn = [
        OpSample(painted, 0.25, IN_THE_MIDDLE),
        OpSample(OPERATIONS["Invert"], 0.0, IN_THE_MIDDLE),
    ]
    result = apply_to_pil(drawn, photo("RGB", 0), FILL)
    expected = [255 - round(255 * channel / 4) for channel in FILL]
    assert (levels_of(result) == expected).all()
    with pytest.raises(SettingsError, match="Paint has no function for PIL images"):
        painted.apply_to_pil(photo("RGB", 0), 0.25, (1, 2, 3), IN_THE_MIDDLE)
