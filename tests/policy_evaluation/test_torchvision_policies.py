"""torchvision's augmentations in the place of a schedule: each image on its own draw, any number of channels."""

from typing import Any

import pytest
import torch
import torchvision.transforms
from PIL import Image
from torch import Tensor
from torchvision.transforms import AutoAugmentPolicy

from hba.config.evaluation import EvaluationConfig
from hba.data import LabelledImages
from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.policy_evaluation.baseline_augmentations import TorchvisionPolicy
from hba.policy_evaluation.baselines import BASELINES
from hba.schedule.schedule import Schedule

NAMES = ("randaugment", "trivialaugment", "autoaugment")
SCHEDULE = Schedule(SearchSpace((OPERATIONS["Rotate"],), copies=1, count_probabilities=(0.0, 1.0)), [[0.5, 10.0]])  # type: ignore[arg-type]


def policy_of(name: str, **settings: Any) -> TorchvisionPolicy:
    config = EvaluationConfig.make({"data": "digits", **settings})
    made_for, (policy,) = BASELINES[name].make(SCHEDULE, config)
    assert made_for == config
    assert isinstance(policy, TorchvisionPolicy)
    return policy


def augmented(name: str, images: Tensor, seed: int = 0, mean: float = 0.4) -> Tensor:
    level = torch.full((1, images.shape[1], 1, 1), round(255 * mean), dtype=torch.uint8)
    epochs = policy_of(name).by_epoch(3, LabelledImages(level, torch.zeros(1, dtype=torch.int64)))
    assert len(epochs) == 3
    torch.manual_seed(seed)
    return epochs[0](images, torch.Generator())


def equal_images(n: int = 40, channels: int = 3) -> Tensor:
    image = torch.randint(0, 256, (1, channels, 12, 12), generator=torch.Generator().manual_seed(1)) / 255
    return image.repeat(n, 1, 1, 1)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_equal_images_come_out_different_by_draws_that_the_default_generator_decides(name: str, channels: int) -> None:
    images = equal_images(channels=channels)
    before = images.clone()
    results = [augmented(name, images, seed) for seed in (0, 0, 1)]
    assert torch.equal(images, before)
    assert results[0].shape == images.shape
    assert results[0].dtype == torch.float32
    assert 0 <= results[0].min() <= results[0].max() <= 1
    assert torch.equal(results[0] * 255, (results[0] * 255).round()), "levels of 8 bits"
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
    assert len({image.numpy().tobytes() for image in results[0]}) > 10


@pytest.mark.parametrize(
    ("name", "side"), [("randaugment", 10), ("autoaugment", 10), ("trivialaugment", 224), ("trivialaugment", 230)]
)
def test_each_image_is_what_torchvision_makes_of_it(name: str, side: int) -> None:
    images = torch.randint(0, 256, (12, 3, side, side), generator=torch.Generator().manual_seed(2)) / 255
    found = augmented(name, images, seed=5, mean=0.4)
    classes = {"randaugment": "RandAugment", "trivialaugment": "TrivialAugmentWide", "autoaugment": "AutoAugment"}
    arguments = {"policy": AutoAugmentPolicy.IMAGENET} if name == "autoaugment" else {}
    transform = getattr(torchvision.transforms, classes[name])(**arguments, fill=[102, 102, 102])
    torch.manual_seed(5)
    for image, result in zip(images, found, strict=True):
        picture = Image.fromarray((image * 255).round().byte().permute(1, 2, 0).numpy())
        expected = torch.frombuffer(bytearray(transform(picture).tobytes()), dtype=torch.uint8).reshape(side, side, 3)
        assert torch.equal((result * 255).round().byte(), expected.permute(2, 0, 1))


@pytest.mark.parametrize(("side", "pixels"), [(16, 2), (112, 16)])
def test_trivial_augment_shifts_by_up_to_a_seventh_of_small_images(side: int, pixels: int) -> None:
    transform = policy_of("trivialaugment").make(fill=[255])
    picture = Image.new("L", (side, side), 0)
    torch.manual_seed(3)
    uncovered = [torch.frombuffer(bytearray(transform(picture).tobytes()), dtype=torch.uint8) for _ in range(900)]
    # Only a shift along one axis uncovers whole columns, or whole rows, at one end.
    across = [image.reshape(side, side) == 255 for image in uncovered]
    lines = [int(lines.all(axis).sum()) for lines in across for axis in (0, 1) if not lines.all()]
    assert max(lines) == pixels


def test_auto_augment_takes_the_policy_of_the_dataset() -> None:
    for settings, policy in (
        ({"data": "cifar100"}, "CIFAR10"),
        ({"data": "svhn-full"}, "SVHN"),
        ({"data": "digits"}, "IMAGENET"),
        ({"data": "a folder", "baseline_like": "svhn"}, "SVHN"),
        ({"data": "cifar10-of-mine"}, "IMAGENET"),
    ):
        found = policy_of("autoaugment", **settings)
        assert found.definition == f"torchvision AutoAugment {policy}"
        assert found.make(fill=[0]).policy == AutoAugmentPolicy[policy]
