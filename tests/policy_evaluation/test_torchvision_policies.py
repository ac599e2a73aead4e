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

SCHEDULE = Schedule(SearchSpace((OPERATIONS["Rotate"],), copies=1, count_probabilities=(0.0, 1.0)), [[0.5, 10.0]])  # type: ignore[arg-type]


def policy_of(name: str, **settings: Any) -> TorchvisionPolicy:
    config = EvaluationConfig.make({"data": "digits", **settings})
    made_for, (policy,) = BASELINES[name].make(SCHEDULE, config)
    assert made_for == config
    assert isinstance(policy, TorchvisionPolicy)
    return policy


def augmented(name: str, images: Tensor) -> Tensor:
    level = torch.full((1, images.shape[1], 1, 1), 102, dtype=torch.uint8)
    epochs = policy_of(name).by_epoch(3, LabelledImages(level, torch.zeros(1, dtype=torch.int64)))
    assert len(epochs) == 3
    torch.manual_seed(5)
    return epochs[0](images, torch.Generator())


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("name", "side"), [("randaugment", 10), ("autoaugment", 10), ("trivialaugment", 224)])
def test_each_image_is_what_torchvision_makes_of_it(name: str, side: int, channels: int) -> None:
    images = torch.randint(0, 256, (12, channels, side, side), generator=torch.Generator().manual_seed(2)) / 255
    before = images.clone()
    found = augmented(name, images)
    assert torch.equal(images, before)
    classes = {"randaugment": "RandAugment", "trivialaugment": "TrivialAugmentWide", "autoaugment": "AutoAugment"}
    arguments = {"policy": AutoAugmentPolicy.IMAGENET} if name == "autoaugment" else {}
    transform = getattr(torchvision.transforms, classes[name])(**arguments, fill=[102] * channels)
    torch.manual_seed(5)
    for image, result in zip(images, found, strict=True):
        levels = (image * 255).round().byte().permute(1, 2, 0).numpy()
        picture = transform(Image.fromarray(levels[..., 0] if channels == 1 else levels))
        expected = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8).reshape(side, side, channels)
        assert torch.equal(result * 255, expected.permute(2, 0, 1).float())


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
