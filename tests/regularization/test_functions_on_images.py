"""What all regularizers that act on images have in common: whose draws they use, and whom they leave alone.

Tensors on PyTorch's device "meta" have shapes and no values, so every look at a value raises.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.autograd.forward_ad as fwad
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

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
ON_PIXELS = ("jitter", "affine")

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


@pytest.mark.parametrize("name", [*JITTER.strengths, *AFFINE.strengths])
def test_each_strength_of_a_group_does_something_alone(name: str) -> None:
    case = JITTER if name in JITTER.strengths else AFFINE
    images = noise(40)
    alone = {other: value * (other == name) for other, value in case.at(images, torch.ones(40)).items()}
    # A map that is drawn near the identity may show each pixel where it was.
    assert sum(differing(case(images, seeded(2), **alone), images)) > 20


@pytest.mark.parametrize("name", ["length", "holes"])
def test_no_hole_is_made_without_a_length_or_a_number(name: str) -> None:
    images = noise()
    without = {**CUTOUT.at(images, torch.ones(6)), name: torch.full((6,), 0.4)}
    assert not any(differing(CUTOUT(images, seeded(2), **without), images))


@every_case
def test_the_strength_of_an_image_is_no_other_s(case: Case) -> None:
    images, one = noise(), torch.ones(6)
    strong = case(images, seeded(3), **case.at(images, one))
    weaker = case(images, seeded(3), **case.at(images, torch.tensor([1, 1, 0.5, 1, 1, 1])))
    assert differing(strong, weaker) == [False, False, True, False, False, False]


@every_case
def test_the_same_image_is_changed_otherwise_at_each_place(case: Case) -> None:
    images = noise(1).expand(6, -1, -1, -1)
    result = case(images, seeded(4), **case.at(images, torch.ones(6)))
    for first in range(6):
        others = result[[index for index in range(6) if index != first]]
        assert all(differing(others, result[first].expand_as(others)))


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


@every_case
def test_without_a_generator_torch_s_default_one_decides(case: Case) -> None:
    images = noise()
    strengths = case.at(images, torch.ones(6))
    torch.manual_seed(7)
    assert torch.equal(case(images, None, **strengths), case(images, seeded(7), **strengths))


@every_case
def test_even_at_a_strength_of_0_the_result_is_a_tensor_of_its_own(case: Case) -> None:
    images = noise()
    before = images.clone()
    case(images, seeded(8), **case.at(images, torch.zeros(6))).add_(1)
    assert torch.equal(images, before)


@pytest.mark.parametrize("name", ON_PIXELS)
@any_channels
@pytest.mark.parametrize("share", [1.0, 1.6])
def test_pixels_stay_within_0_and_1(name: str, channels: int, share: float) -> None:
    images = noise(200, channels)
    result = CASES[name](images, seeded(10), **CASES[name].at(images, torch.full((200,), share)))
    assert 0 <= float(result.min()) < 0.05
    assert 0.95 < float(result.max()) <= 1


@every_case
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_type_is_that_of_the_images(case: Case, dtype: torch.dtype) -> None:
    images = noise(dtype=dtype)
    half = torch.tensor([0.0, 1, 0, 1, 0, 1])
    result = case(images, seeded(11), **case.at(images, half))
    assert result.dtype == dtype
    assert differing(result, images) == [False, True, False, True, False, True]


@every_case
def test_no_derivative_comes_from_the_strengths(case: Case) -> None:
    """Neither backward nor forward: the search's derivatives are those of the network alone."""
    images = noise()
    strengths = case.at(images, torch.ones(6))
    assert not case(
        images, seeded(12), **{name: one.clone().requires_grad_() for name, one in strengths.items()}
    ).requires_grad
    with fwad.dual_level():
        dual = {name: fwad.make_dual(one, torch.ones_like(one)) for name, one in strengths.items()}
        assert fwad.unpack_dual(case(images, seeded(12), **dual)).tangent is None


class NothingFromTheHost(TorchFunctionMode):
    """Refuses to make tensors of numbers in Python: on a GPU they are copied, and the host waits for that."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function in (torch.tensor, torch.as_tensor, torch.from_numpy, Tensor.new_tensor):
            raise AssertionError(f"{function.__name__} copies numbers from the host")
        return function(*args, **(kwargs or {}))


@every_case
@any_channels
@pytest.mark.parametrize("batch", [0, 6])
def test_no_value_is_looked_at_and_nothing_comes_from_the_host(case: Case, channels: int, batch: int) -> None:
    images = torch.empty(batch, channels, 8, 7, device="meta")
    strengths = case.at(images, torch.empty(batch, device="meta"))
    # Constants travel to the device in the first call.
    case(images, None, **strengths)
    with NothingFromTheHost():
        result = case(images, None, **strengths)
    assert (result.shape, result.device.type) == (images.shape, "meta")


def test_a_look_at_a_value_is_noticed() -> None:
    """The test above can fail."""
    curious = Case(lambda images, generator, rate: images * float(rate.sum()), {"rate": 0.5})
    images = torch.empty(2, 3, 4, 4, device="meta")
    with pytest.raises(RuntimeError, match="meta"):
        curious(images, None, **curious.at(images, torch.empty(2, device="meta")))


@pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="this PyTorch cannot pretend to have a GPU")
@every_case
def test_all_tensors_are_on_the_device_of_the_images(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tensors that pretend to be on a GPU, two devices in one operation are an error."""
    # Nothing is kept for later tests as in a program that is compiled: it would pretend there, too.
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    with FakeTensorMode():
        images = torch.empty(5, 3, 8, 8, device="cuda")
        assert case(images, None, **case.at(images, torch.empty(5, device="cuda"))).device.type == "cuda"


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
