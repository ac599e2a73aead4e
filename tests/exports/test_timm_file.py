"""A file for timm: its policy stands between timm's own cropping and normalisation."""

from typing import Any

import pytest
import torch
from exported import augmented, module_of, pictures, schedule_of
from PIL import Image
from timm.data.transforms_factory import create_transform

import hba


def exported() -> Any:
    return module_of(hba.export(schedule_of("hba"), "timm"))


def test_the_policy_comes_after_cropping_and_before_the_normalisation() -> None:
    module = exported()
    policy = module.transform()
    settings: dict[str, Any] = {"input_size": 24, "scale": (1.0, 1.0), "ratio": (1.0, 1.0), "hflip": 0.0}
    crop, _, to_tensor = create_transform(**settings, is_training=True, separate=True)
    image = pictures()[0].resize((40, 40))
    whole = module.timm_transform(policy, **settings)
    # Cropping the whole image draws too.
    assert torch.equal(augmented(whole, image, 2), augmented(lambda given: to_tensor(policy(crop(given))), image, 2))


def test_a_loader_of_timm_takes_it() -> None:
    from timm.data.dataset import ImageDataset
    from timm.data.loader import create_loader

    class Pictures(ImageDataset):
        def __init__(self) -> None:
            self.transform = None

        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> Any:
            return self.transform(Image.new("RGB", (40, 30), (10, 200, 30))), index

    module, dataset = exported(), Pictures()
    loader = create_loader(
        dataset, input_size=(3, 24, 24), batch_size=4, is_training=True, use_prefetcher=False, num_workers=0
    )
    loader.dataset.transform = module.timm_transform(module.transform(), input_size=24)
    (images, labels) = next(iter(loader))
    assert images.shape == (4, 3, 24, 24)
    assert sorted(labels.tolist()) == [0, 1, 2, 3]


def test_a_second_policy_is_refused() -> None:
    module = exported()
    with pytest.raises(ValueError, match="second policy"):
        module.timm_transform(module.transform(), auto_augment="rand-m9")
