"""What all regularizers that act on images have in common: whose draws they use, and whom they leave alone.

Tensors on PyTorch's device "meta" have shapes and no values, so every look at a value raises.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from each import each
from torch import Tensor

from hba.regularization.on_images import affine, cutout, input_dropout, input_noise, jitter


@dataclass(frozen=True)
class Case:
    """strengths: by name, ones that are sure to change an image of noise. fixed: what else the function takes."""

    function: Callable[..., Tensor]
    strengths: Mapping[str, float]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    uses_fill: bool = False

    def __call__(self, images: Tensor, generator: torch.Generator | None, **strengths: Tensor) -> Tensor:
        further = {"fill": images.new_full((images.shape[1],), 0.5)} if self.uses_fill else {}
        return self.function(images, generator, **strengths, **self.fixed, **further)

    def at(self, images: Tensor, share: Tensor) -> dict[str, Tensor]:
        """Strengths (B,) of `share` (B,) times those of the case."""
        return {name: strength * share.to(images.device) for name, strength in self.strengths.items()}


JITTER = Case(jitter, {"brightness": 0.5, "contrast": 0.5, "saturation": 0.5, "hue": 0.3})
AFFINE = Case(affine, {"degrees": 40.0, "shear": 30.0, "translate": 0.3, "scale": 0.4}, uses_fill=True)
CUTOUT = Case(cutout, {"length": 5.0, "holes": 3.0}, {"most_holes": 4})
CASES = {
    "jitter": JITTER,
    "affine": AFFINE,
    "cutout": CUTOUT,
    "input_dropout": Case(input_dropout, {"rate": 0.4}),
    "input_noise": Case(input_noise, {"deviation": 0.3}),
}

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
any_channels = pytest.mark.parametrize("channels", [1, 3, 5])


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise(batch: int = 6, channels: int = 3, dtype: torch.dtype = torch.float32) -> Tensor:
    """Within [0, 1], the ends too."""
    return (torch.rand(batch, channels, 11, 9, generator=seeded(9)) * 1.2 - 0.1).clamp(0, 1).to(dtype)


def differing(first: Tensor, second: Tensor) -> list[bool]:
    """For each image."""
    return (first != second).flatten(1).any(dim=1).tolist()


@every_case
@any_channels
def test_a_strength_of_0_leaves_every_bit_and_others_change_the_image(case: Case, channels: int) -> None:
    images = noise(channels=channels)
    result = case(images, seeded(1), **case.at(images, torch.tensor([0.0, 1, 0, 1, 0, 1])))
    assert result.shape == images.shape
    assert differing(result, images) == [False, True, False, True, False, True]


@each("name", [*JITTER.strengths, *AFFINE.strengths])
def test_each_strength_of_a_group_does_something_alone(name: str) -> None:
    case = JITTER if name in JITTER.strengths else AFFINE
    images = noise(40)
    alone = {other: value * (other == name) for other, value in case.at(images, torch.ones(40)).items()}
    # A map that is drawn near the identity may show each pixel where it was.
    assert sum(differing(case(images, seeded(2), **alone), images)) > 20


@every_case
def test_the_strength_of_an_image_is_no_other_s(case: Case) -> None:
    images, one = noise(), torch.ones(6)
    strong = case(images, seeded(3), **case.at(images, one))
    weaker = case(images, seeded(3), **case.at(images, torch.tensor([1, 1, 0.5, 1, 1, 1])))
    assert differing(strong, weaker) == [False, False, True, False, False, False]


@every_case
@any_channels
def test_the_generator_alone_decides_and_the_images_stay(case: Case, channels: int) -> None:
    images = noise(channels=channels)
    strengths = case.at(images, torch.ones(6))
    before, state = images.clone(), torch.get_rng_state()
    first = case(images, seeded(5), **strengths)
    assert torch.equal(case(images, seeded(5), **strengths), first)
    assert not torch.equal(case(images, seeded(6), **strengths), first)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(images, before)
    assert first.data_ptr() != images.data_ptr()


@pytest.mark.gpu
@every_case
def test_on_a_gpu_the_host_never_waits(case: Case) -> None:
    images = noise().cuda()
    strengths = case.at(images, torch.ones(6))
    generator = torch.Generator("cuda").manual_seed(13)
    case(images, generator, **strengths)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        result = case(images, generator, **strengths)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert all(differing(result, images))
