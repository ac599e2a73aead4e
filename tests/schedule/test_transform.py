"""PolicyTransform: what goes in comes out in the same form, augmented by the row that was chosen."""

import copy
import os
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torchvision import tv_tensors
from torchvision.transforms import v2

from hba.errors import ScheduleError, SettingsError
from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule
from hba.schedule.transform import PolicyTransform

ALWAYS_ONE = (0.0, 1.0)
"""count_probabilities: every image gets exactly one operation, if any fires."""

HEIGHT, WIDTH = 6, 9

pytestmark = pytest.mark.filterwarnings("ignore::hba.errors.ScheduleLengthWarning")


def inverting(*probabilities: float) -> Schedule:
    """One row per probability of inverting an image, which is all that can happen to it."""
    space = SearchSpace((OPERATIONS["Invert"],), copies=1, count_probabilities=ALWAYS_ONE)
    return Schedule(space, np.array(probabilities)[:, None])


def dimming(*factors: float) -> Schedule:
    """One row per factor, by which every image is multiplied."""
    space = SearchSpace((OPERATIONS["Brightness"],), copies=1, count_probabilities=ALWAYS_ONE)
    return Schedule(space, np.array([[1.0, factor] for factor in factors]))


def full_schedule() -> Schedule:
    """One row: all 15 operations, each with probability 0.7 and far from doing nothing."""
    space = SearchSpace()
    low, high = np.array(space.ranges).T
    return Schedule(space, (0.3 * low + 0.7 * high)[None])


def levels(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


def as_pil(pixels: Tensor) -> Image.Image:
    """uint8 (C, H, W) as PIL, made by way of numpy."""
    return Image.fromarray(pixels[0].numpy() if len(pixels) == 1 else pixels.permute(1, 2, 0).numpy())


def pixels_of(image: Any) -> Tensor:
    """Any form of image as levels (..., C, H, W), float64."""
    if isinstance(image, Image.Image | np.ndarray):
        array = np.array(image)
        return torch.from_numpy(array[None] if array.ndim == 2 else array.transpose(2, 0, 1)).double()
    plain: Tensor = image.as_subclass(Tensor)
    return plain.double() * (255 if plain.is_floating_point() else 1)


INPUTS: dict[str, Callable[[], Any]] = {
    "PIL RGB": lambda: as_pil(levels(3, HEIGHT, WIDTH)),
    "PIL L": lambda: as_pil(levels(1, HEIGHT, WIDTH)),
    "NumPy RGB": lambda: np.array(as_pil(levels(3, HEIGHT, WIDTH))),
    "NumPy RGB, its channels reversed": lambda: np.array(as_pil(levels(3, HEIGHT, WIDTH)))[:, :, ::-1],
    "NumPy gray": lambda: np.array(as_pil(levels(1, HEIGHT, WIDTH))),
    "NumPy gray, transposed": lambda: np.array(as_pil(levels(1, HEIGHT, WIDTH))).T,
    "NumPy of one channel": lambda: np.array(as_pil(levels(1, HEIGHT, WIDTH)))[:, :, None],
    "tv_tensors.Image uint8": lambda: tv_tensors.Image(levels(3, HEIGHT, WIDTH)),
    "tv_tensors.Image float": lambda: tv_tensors.Image(levels(2, 3, HEIGHT, WIDTH) / 255),
    "uint8": lambda: levels(3, HEIGHT, WIDTH),
    "uint8, one channel": lambda: levels(1, HEIGHT, WIDTH),
    "uint8, batch": lambda: levels(5, 3, HEIGHT, WIDTH),
    "uint8, batches of batches": lambda: levels(2, 4, 3, HEIGHT, WIDTH),
    "float32": lambda: levels(3, HEIGHT, WIDTH) / 255,
    "float32, batch of one channel": lambda: levels(5, 1, HEIGHT, WIDTH) / 255,
    "float64": lambda: levels(3, HEIGHT, WIDTH).double() / 255,
    "float64, batch": lambda: levels(5, 3, HEIGHT, WIDTH).double() / 255,
    "float16": lambda: (levels(3, HEIGHT, WIDTH) / 255).half(),
    "float16, batch": lambda: (levels(5, 3, HEIGHT, WIDTH) / 255).half(),
    "empty batch": lambda: levels(0, 3, HEIGHT, WIDTH),
}


def assert_same_form(result: Any, given: Any) -> None:
    if isinstance(given, Image.Image):
        assert isinstance(result, Image.Image)
        assert (result.mode, result.size) == (given.mode, given.size)
    else:
        assert type(result) is type(given)
        assert (result.dtype, result.shape) == (given.dtype, given.shape)


@pytest.mark.parametrize("name", INPUTS)
def test_every_form_of_image_comes_back_inverted_in_the_form_it_had(name: str) -> None:
    given = INPUTS[name]()
    before = pixels_of(given).clone()
    result = PolicyTransform(inverting(1.0))(given)
    assert_same_form(result, given)
    # Half floats are 8-bit levels to within a tenth of a level.
    assert torch.allclose(pixels_of(result), 255 - before, atol=0.1)
    assert torch.equal(pixels_of(given), before), "the image given is left alone"


@pytest.mark.parametrize("name", INPUTS)
def test_every_form_of_image_goes_through_all_operations(name: str) -> None:
    given = INPUTS[name]()
    transform = PolicyTransform(full_schedule())
    torch.manual_seed(0)
    results = [transform(given) for _ in range(40)]
    for result in results:
        assert_same_form(result, given)
        assert ((pixels_of(result) >= 0) & (pixels_of(result) <= 255.001)).all()
    changed = sum(not torch.equal(pixels_of(result), pixels_of(given)) for result in results)
    assert changed > 20 or not pixels_of(given).numel()


@pytest.mark.parametrize("channels", [1, 3])
def test_the_same_draw_gives_the_same_pixels_in_every_form_of_tensor(channels: int) -> None:
    transform = PolicyTransform(full_schedule())
    pixels = levels(channels, 16, 16)
    forms = [pixels, tv_tensors.Image(pixels), pixels / 255, pixels[None]]
    distinct = set()
    for seed in range(30):
        results = []
        for form in forms:
            torch.manual_seed(seed)
            results.append(pixels_of(transform(form)).reshape(pixels.shape).round())
        assert all(torch.equal(result, results[0]) for result in results)
        distinct.add(results[0].numpy().tobytes())
    assert len(distinct) > 15


def test_half_floats_are_computed_in_single_precision() -> None:
    transform = PolicyTransform(full_schedule())
    image = torch.rand(8, 3, 16, 16, generator=torch.Generator().manual_seed(0)).half()
    for seed in range(5):
        torch.manual_seed(seed)
        result = transform(image)
        torch.manual_seed(seed)
        assert torch.equal(result, transform(image.float()).half())


def test_every_image_of_a_batch_gets_its_own_draw() -> None:
    torch.manual_seed(0)
    batch = torch.full((20, 20, 1, 2, 2), 10, dtype=torch.uint8)
    result = PolicyTransform(inverting(0.5))(batch)
    inverted = result == 245
    assert torch.equal(inverted | (result == 10), torch.ones_like(inverted))
    # A binomial of 400 and 0.5 has a standard deviation of 10.
    assert 150 < inverted[..., 0, 0].sum() < 250


def test_two_images_of_a_sample_get_the_same_draw() -> None:
    transform = PolicyTransform(inverting(0.5))
    torch.manual_seed(0)
    seen = set()
    for _ in range(30):
        first, second = transform(tv_tensors.Image(levels(3, 4, 4)), tv_tensors.Image(levels(3, 4, 4)))
        assert torch.equal(first, second)
        seen.add(int(first[0, 0, 0]))
    assert len(seen) == 2


@pytest.mark.parametrize("label", [7, 3.5, "a cat", None, torch.tensor(7), [1, 2]], ids=repr)
def test_labels_pass_through_beside_an_image(label: Any) -> None:
    transform = PolicyTransform(inverting(1.0))
    image = INPUTS["PIL RGB"]()
    result, unchanged = transform(image, label)
    assert torch.equal(pixels_of(result), 255 - pixels_of(image))
    assert unchanged == label
    result = transform({"image": tv_tensors.Image(levels(3, 4, 4)), "label": label})
    assert torch.equal(pixels_of(result["image"]), 255.0 - levels(3, 4, 4))
    assert result["label"] == label


def test_it_stands_in_a_pipeline_behind_resize_and_before_normalize() -> None:
    mean, std = [0.2, 0.4, 0.6], [0.5, 0.25, 0.2]
    pipeline = v2.Compose(
        [
            v2.Resize((4, 4)),
            PolicyTransform(inverting(1.0)),
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(mean, std),
        ]
    )
    result, label = pipeline(Image.new("RGB", (20, 20), (55, 105, 155)), 2)
    expected = (np.array([200, 150, 100]) / 255 - mean) / std
    assert result.shape == (3, 4, 4)
    assert label == 2
    np.testing.assert_allclose(result.numpy(), np.broadcast_to(expected[:, None, None], (3, 4, 4)), rtol=1e-5)


@pytest.mark.parametrize("mode", ["RGBA", "P", "LA", "1", "CMYK"])
def test_pil_images_of_other_modes_are_refused(mode: str) -> None:
    with pytest.raises(TypeError, match=f"must be of mode L or RGB, got {mode}; use .convert"):
        PolicyTransform(inverting(1.0))(Image.new(mode, (8, 8)))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.bool, torch.complex64])
def test_tensors_of_other_types_are_refused(dtype: torch.dtype) -> None:
    with pytest.raises(TypeError, match=f"uint8 or floating point, got {dtype}"):
        PolicyTransform(inverting(1.0))(torch.ones(3, 4, 4).to(dtype))


@pytest.mark.parametrize("shape", [(2, 4, 4), (4, 4, 3), (5, 4, 8, 8)])
def test_tensors_that_are_no_images_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(TypeError, match=r"shape .* with C 1 or 3, got"):
        PolicyTransform(inverting(1.0))(torch.zeros(shape))


@pytest.mark.parametrize("value", [-0.6, 1.6, 255.0, float("nan"), float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_floats_outside_0_to_1_are_refused_with_the_remedy(value: float, dtype: torch.dtype) -> None:
    image = torch.full((3, 4, 4), 0.5, dtype=dtype)
    image[0, 0, 0] = value
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\].*before the normalisation"):
        PolicyTransform(inverting(1.0))(image)


@pytest.mark.parametrize("value", [-0.05, 1 + 2.4e-7, 1.05])
def test_floats_just_outside_0_to_1_as_resizing_makes_them_are_clamped(value: float) -> None:
    image = torch.full((3, 4, 4), value)
    assert torch.equal(PolicyTransform(inverting(0.0))(image), image.clamp(0, 1))


def factor_in_use(transform: PolicyTransform) -> float:
    """By what a dimming schedule multiplies an image just now."""
    return float(transform(torch.full((1, 1, 1), 0.5)).item() / 0.5)


def test_set_epoch_uses_exactly_that_row() -> None:
    transform = PolicyTransform(inverting(0, 1, 1, 0, 1))
    image = levels(3, 4, 4)
    for epoch in (0, 1, 2, 3, 4, 1, 0, 3):
        transform.set_epoch(epoch)
        expected = 255 - image if epoch in (1, 2, 4) else image
        assert all(torch.equal(transform(image), expected) for _ in range(10))


def test_set_progress_uses_the_row_that_the_stretched_schedule_has_there() -> None:
    factors = (0.2, 1.0, 0.6, 0.4)
    schedule = dimming(*factors)
    transform = PolicyTransform(schedule)
    for epochs in (2, 4, 7, 11):
        fractions = np.linspace(0, 1, epochs)
        by_numpy = np.interp(fractions * (len(factors) - 1), np.arange(len(factors)), factors)
        stretched = PolicyTransform(schedule.stretched(epochs))
        for epoch, (fraction, expected) in enumerate(zip(fractions, by_numpy, strict=True)):
            transform.set_progress(fraction)
            stretched.set_epoch(epoch)
            assert factor_in_use(transform) == pytest.approx(expected, rel=1e-5)
            assert factor_in_use(stretched) == pytest.approx(expected, rel=1e-5)


def test_before_any_call_the_last_row_is_used() -> None:
    assert factor_in_use(PolicyTransform(dimming(0.2, 0.9, 0.4))) == pytest.approx(0.4)
    assert factor_in_use(dimming(0.2, 0.9, 0.7).transform()) == pytest.approx(0.7)


def test_places_outside_the_schedule_are_refused_and_the_place_stays() -> None:
    transform = PolicyTransform(dimming(0.2, 0.9, 0.4))
    transform.set_epoch(1)
    for epoch in (-1, 3):
        with pytest.raises(SettingsError, match=rf"epoch must lie in \[0, 2\], got {epoch}; for a training of another"):
            transform.set_epoch(epoch)
    for fraction in (-0.01, 1.01, float("nan")):
        with pytest.raises(ScheduleError, match=r"must lie in \[0, 1\]"):
            transform.set_progress(fraction)
    assert factor_in_use(transform) == pytest.approx(0.9)


def pickled(transform: PolicyTransform) -> PolicyTransform:
    restored: PolicyTransform = pickle.loads(pickle.dumps(transform))
    return restored


@pytest.mark.parametrize("duplicate", [copy.deepcopy, pickled])
def test_a_copy_has_the_same_schedule_and_a_place_of_its_own(
    duplicate: Callable[[PolicyTransform], PolicyTransform],
) -> None:
    original = PolicyTransform(dimming(0.2, 0.9, 0.4))
    original.set_epoch(1)
    copied = duplicate(original)
    assert factor_in_use(copied) == pytest.approx(0.9)
    copied.set_epoch(0)
    assert [factor_in_use(original), factor_in_use(copied)] == pytest.approx([0.9, 0.2])
    original.set_epoch(2)
    assert [factor_in_use(original), factor_in_use(copied)] == pytest.approx([0.4, 0.2])


class Dimmed(Dataset[tuple[float, int]]):
    """Factors by which images are multiplied in the process that asks, with the number of that process."""

    def __init__(self, transform: PolicyTransform) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[float, int]:
        return factor_in_use(self.transform), os.getpid()


def itself(transform: PolicyTransform) -> PolicyTransform:
    return transform


@pytest.mark.parametrize(
    ("context", "duplicate"),
    [("fork", itself), ("spawn", itself), ("fork", copy.deepcopy), ("fork", pickled)],
    ids=["fork", "spawn", "fork, of a deep copy", "fork, of a pickled copy"],
)
def test_the_place_reaches_persistent_workers(
    context: str, duplicate: Callable[[PolicyTransform], PolicyTransform]
) -> None:
    factors = (0.2, 0.9, 0.4)
    transform = duplicate(PolicyTransform(dimming(*factors)))
    loader = DataLoader(
        Dimmed(transform), batch_size=1, num_workers=2, persistent_workers=True, multiprocessing_context=context
    )

    def in_workers() -> tuple[set[float], set[int]]:
        batches = [(round(float(factor), 4), int(process)) for factor, process in loader]
        return {factor for factor, _ in batches}, {process for _, process in batches}

    used, processes = in_workers()
    assert used == {0.4}
    assert len(processes - {os.getpid()}) == 2
    for epoch in (0, 1, 2, 0):
        transform.set_epoch(epoch)
        assert in_workers() == ({factors[epoch]}, processes)
    transform.set_progress(0.25)
    assert in_workers() == ({0.55}, processes)


def test_functions_of_modules_reach_it_and_it_has_no_weights() -> None:
    policy = PolicyTransform(inverting(1.0))
    model = nn.Sequential(policy, nn.Conv2d(3, 2, 1))
    visited: list[nn.Module] = []
    assert model.apply(visited.append) is model
    assert visited == [policy, model[1], model]
    assert list(model.state_dict()) == ["1.weight", "1.bias"]
    image = torch.rand(2, 3, 4, 4)
    assert torch.allclose(model.double().eval()(image.double()), model[1](1 - image.double()), atol=1 / 255)


def test_it_shows_its_length_and_place() -> None:
    transform = PolicyTransform(dimming(0.2, 0.9, 0.4))
    assert repr(transform) == "PolicyTransform(epochs=3, position=2)"
    transform.set_progress(0.25)
    assert repr(transform) == "PolicyTransform(epochs=3, position=0.5)"
