"""What PolicyTransform takes for the image of a sample, and what it refuses."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from test_transform import full_schedule, inverting, levels
from torchvision import tv_tensors
from torchvision.transforms import v2

from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule
from hba.schedule.transform import PolicyTransform


def array(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


WITHOUT_AN_IMAGE: dict[str, Any] = {
    "labels": {"label": 3, "name": "x"},
    "nothing": {},
    "a vector": torch.zeros(4),
    "a matrix": (torch.zeros(4, 4), 1),
    "a scalar": torch.tensor(3),
    "floats in an array": np.zeros((4, 4, 3), dtype=np.float32),
    "16 bits in an array": {"image": np.zeros((4, 4), dtype=np.uint16), "label": 1},
    "four channels": array(4, 4, 4),
    "channels first": array(3, 8, 8),
    "a batch of arrays": array(2, 8, 8, 3),
    "labels in an array": np.arange(5),
}


@pytest.mark.parametrize("name", WITHOUT_AN_IMAGE)
def test_a_sample_without_an_image_is_refused_as_torchvision_refuses_it(name: str) -> None:
    sample = WITHOUT_AN_IMAGE[name]
    with pytest.raises(TypeError, match=r"^Found no image in the sample, only ") as raised:
        PolicyTransform(inverting(1.0))(sample)
    assert len(str(raised.value).splitlines()) == 1


def test_without_an_image_what_there_is_is_named() -> None:
    sample = (np.zeros((4, 5), dtype=np.uint16), torch.zeros(3), "x", 1, 2.0)
    with pytest.raises(
        TypeError, match=r"only ndarray uint16 \(4, 5\), Tensor torch.float32 \(3,\), str, int and 1 more"
    ):
        PolicyTransform(inverting(1.0))(sample)


@pytest.mark.parametrize(
    "label", [np.array(3), np.arange(4), np.zeros(5, dtype=np.float32), np.eye(3), torch.zeros(4), torch.eye(5), 7]
)
def test_arrays_and_tensors_that_are_no_images_pass_through_beside_an_array(label: Any) -> None:
    image = array(6, 5, 3)
    for sample in [(image, label), (label, image)]:
        result = PolicyTransform(inverting(1.0))(*sample)
        (changed,) = [part for part in result if part is not label]
        assert (changed == 255 - image).all()
    result = PolicyTransform(inverting(1.0))({"label": label, "nested": [image]})
    assert result["label"] is label
    assert (result["nested"][0] == 255 - image).all()


def test_an_array_gets_what_the_same_pil_image_gets() -> None:
    transform = PolicyTransform(full_schedule())
    pixels, changed = array(20, 30, 3), 0
    for seed in range(30):
        torch.manual_seed(seed)
        of_array = transform(pixels)
        torch.manual_seed(seed)
        assert (of_array == np.array(transform(Image.fromarray(pixels)))).all()
        of_array[0, 0, 0] = 0
        changed += not (of_array == pixels).all()
    assert changed > 15


def test_an_array_stands_in_a_torchvision_pipeline() -> None:
    pipeline = v2.Compose([PolicyTransform(inverting(1.0)), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    pixels = array(6, 7, 3)
    torch.testing.assert_close(
        pipeline(pixels).as_subclass(torch.Tensor), torch.from_numpy(255 - pixels).permute(2, 0, 1).float() / 255
    )


def pil(mode: str) -> Image.Image:
    return Image.fromarray(array(6, 5) if mode == "L" else array(6, 5, 3))


SEVERAL_IMAGES: dict[str, Callable[[], tuple[Any, ...]]] = {
    "PIL and a PIL mask": lambda: (pil("RGB"), pil("L")),
    "two PIL images": lambda: (pil("RGB"), pil("RGB")),
    "PIL and a NumPy mask": lambda: (pil("RGB"), array(6, 5)),
    "NumPy and a NumPy mask": lambda: (array(6, 5, 3), array(6, 5)),
    "tv_tensors.Image and a PIL mask": lambda: (tv_tensors.Image(levels(3, 6, 5)), pil("L")),
    "a tensor and a NumPy mask": lambda: (levels(3, 6, 5), array(6, 5)),
}


@pytest.mark.parametrize("name", SEVERAL_IMAGES)
def test_a_mask_beside_an_image_is_refused_and_not_coloured(name: str) -> None:
    image, mask = SEVERAL_IMAGES[name]()
    before = np.array(mask)
    for sample in [(image, mask, 3), ({"image": image, "mask": mask},), ([mask, image],)]:
        with pytest.raises(TypeError, match=r"Found more than one image in the sample .*one may be a mask"):
            PolicyTransform(inverting(1.0))(*sample)
    assert (np.array(mask) == before).all()


def test_a_tensor_beside_an_image_passes_through_as_in_torchvision() -> None:
    features = torch.rand(2, 3, 4)
    for image in (pil("RGB"), tv_tensors.Image(levels(3, 6, 5))):
        assert PolicyTransform(inverting(1.0))(image, features)[1] is features


def rotating() -> Schedule:
    """No grey level is changed."""
    space = SearchSpace((OPERATIONS["Rotate"],), copies=1, count_probabilities=(0.0, 1.0))
    return Schedule(space, np.array([[0.0, 10.0]]))


@pytest.mark.parametrize("mode", ["I;16", "I", "F", "I;16B"])
def test_following_the_advice_for_deep_images_keeps_all_their_levels(mode: str) -> None:
    ramp = np.arange(4096).reshape(64, 64)
    image = Image.fromarray(ramp.astype({"F": "float32", "I": "int32", "I;16B": ">u2"}.get(mode, "uint16")))
    assert image.mode == mode
    transform = PolicyTransform(rotating())
    with pytest.raises(
        TypeError, match=r"must be of mode L or RGB, got .*, which PIL's convert\(\) would clip"
    ) as raised:
        transform(image)
    assert ".convert('RGB')" not in str(raised.value)
    advice = re.search(r"by the maximum of the whole data set: (.*)$", str(raised.value))
    assert advice is not None
    tensor = eval(advice[1], {"torch": torch, "numpy": np, "image": image, "maximum": 4095})
    assert (transform(tensor)[0].mul(4095).round().long().numpy() == ramp).all()


ZERO_SIZES: dict[str, Callable[[], Any]] = {
    "tensor without height": lambda: torch.zeros(3, 0, 5),
    "batch without width": lambda: torch.zeros(2, 3, 4, 0),
    "uint8 without height": lambda: torch.zeros(3, 0, 0, dtype=torch.uint8),
    "empty batch of nothing": lambda: torch.zeros(0, 1, 0, 4),
    "array without height": lambda: np.zeros((0, 4, 3), dtype=np.uint8),
    "array without width": lambda: np.zeros((4, 0), dtype=np.uint8),
}


@pytest.mark.parametrize("name", ZERO_SIZES)
def test_images_without_a_pixel_come_back_as_they_are(name: str) -> None:
    given = ZERO_SIZES[name]()
    transform = PolicyTransform(full_schedule())
    for _ in range(20):
        result = transform(given)
        assert type(result) is type(given)
        assert (result.shape, result.dtype) == (given.shape, given.dtype)


def test_a_pil_image_without_a_pixel_comes_back_as_it_is() -> None:
    transform = PolicyTransform(full_schedule())
    for _ in range(20):
        assert transform(Image.new("RGB", (0, 4))).size == (0, 4)
