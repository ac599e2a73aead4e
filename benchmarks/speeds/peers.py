"""The calls that `speed.py throughput` times: hba and its peers, each on the input that
it is made for.

Unless stated otherwise, peers keep their defaults, such as black borders.
albumentations is not a dependency of hba; without it, its row says so.
"""

import importlib
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from kornia.augmentation.auto import RandAugment as KorniaRandAugment
from PIL import Image
from torch import Tensor
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as TF

from hba import Policy, PolicyTransform, Schedule, SearchSpace

SEED = 0

Call = Callable[[], object]
"""Augments a whole batch once."""
Transform = Callable[[Any], Any]
"""Augments one image."""


@dataclass(frozen=True)
class Peer:
    """A row of the table."""

    name: str
    takes: str
    operations: str
    prepare: Callable[[Tensor], Call] | None
    """Makes a call from uint8 images (B, C, H, W); None without the package."""


def two_operations(n_images: int) -> Policy:
    """All operations in 30 slots, each firing with probability 0.5: two on every image,
    except 3 in 10^8.

    Each image draws its magnitudes once, uniformly from their ranges.
    """
    space = SearchSpace(count_probabilities=(0.0, 0.0, 1.0))
    low, high = torch.tensor(space.ranges).unbind(1)
    values = torch.lerp(
        low,
        high,
        torch.rand(n_images, space.n, generator=torch.Generator().manual_seed(SEED)),
    )
    is_probability = torch.tensor(
        [name.endswith(".probability") for name in space.names]
    )
    return Policy(space, torch.where(is_probability, 0.5, values))


def transform_of_two() -> PolicyTransform:
    """Two of all operations on every image, with one policy for all images."""
    policy = two_operations(1)
    return Schedule(policy.space, policy.values.double().numpy()).transform()


def call_on_floats(policy: Policy, images: Tensor) -> Call:
    """From a float32 batch to a float32 batch."""
    batch = images.float() / 255
    generator = torch.Generator().manual_seed(SEED)
    return lambda: policy(batch, generator)


def call_on_bytes(policy: Policy, images: Tensor, to_floats: bool) -> Call:
    """From a uint8 batch to a uint8 batch, or to a float32 batch, which a network can
    take.
    """
    generator = torch.Generator().manual_seed(SEED)
    if to_floats:
        return lambda: policy(images, generator).float().div_(255)
    return lambda: policy(images, generator)


def arrays(images: Tensor) -> list[np.ndarray[Any, Any]]:
    """uint8 (B, C, H, W) as contiguous arrays (H, W, C)."""
    return list(images.permute(0, 2, 3, 1).contiguous().numpy())


def pictures(images: Tensor) -> list[Image.Image]:
    return [Image.fromarray(array) for array in arrays(images)]


def one_by_one(
    make_images: Callable[[Tensor], Iterable[Any]], transform: Transform, images: Tensor
) -> Call:
    """From images of one kind to images of the same kind."""
    kept = list(make_images(images))
    return lambda: [transform(image) for image in kept]


def pictures_to_batch(transform: Transform, images: Tensor) -> Call:
    """From PIL images to a float32 batch (B, C, H, W), which a network can take."""
    kept = pictures(images)
    return lambda: (
        torch.stack([TF.pil_to_tensor(transform(image)) for image in kept]).float()
        / 255
    )


def arrays_to_batch(transform: Transform, images: Tensor) -> Call:
    """From arrays (H, W, C) to a float32 batch (B, C, H, W)."""
    kept = arrays(images)
    return lambda: (
        torch.from_numpy(np.stack([transform(array) for array in kept]))
        .permute(0, 3, 1, 2)
        .float()
        .contiguous()
        / 255
    )


def kornia_rand_augment() -> Callable[[Tensor], Tensor]:
    """kornia's RandAugment without its transformation matrices, which are not used here
    and make it slower.
    """
    augment: Callable[[Tensor], Tensor] = KorniaRandAugment(
        n=2, m=10, transformation_matrix_mode="skip"
    )
    return augment


def call_kornia(images: Tensor) -> Call:
    """From a float32 batch to a float32 batch."""
    return partial(kornia_rand_augment(), images.float() / 255)


def albumentations_two() -> Transform | None:
    """Two of the 15 transforms that are closest to hba's operations, with the same
    ranges if they can be set; None without albumentations.

    If a transform has several methods, the one closest to PIL's is used, except for
    Equalize, where OpenCV's is faster.
    """
    os.environ.setdefault(
        "NO_ALBUMENTATIONS_UPDATE", "1"
    )  # Otherwise it looks up its newest version online.
    try:
        library: Any = importlib.import_module("albumentations")
        opencv: Any = importlib.import_module("cv2")
    except ImportError:
        return None
    opencv.setNumThreads(0)
    still = (0.0, 0.0)
    same = (1.0, 1.0)
    degrees = math.degrees(math.atan(0.3))
    shear = (-degrees, degrees)
    shift = (-0.45, 0.45)
    factor = (0.1, 1.9)
    affine = partial(library.Affine, interpolation=opencv.INTER_NEAREST, p=1)
    jitter = partial(library.ColorJitter, hue=still, p=1)
    transforms = [
        affine(shear={"x": shear, "y": still}),
        affine(shear={"x": still, "y": shear}),
        affine(translate_percent={"x": shift, "y": still}),
        affine(translate_percent={"x": still, "y": shift}),
        affine(rotate=(-30.0, 30.0)),
        library.AutoContrast(method="pil", p=1),
        library.InvertImg(p=1),
        library.Equalize(p=1),
        library.Solarize(threshold_range=(0.0, 1.0), p=1),
        library.Posterize(num_bits=(1, 7), p=1),
        jitter(brightness=same, contrast=factor, saturation=same),
        jitter(brightness=same, contrast=same, saturation=factor),
        jitter(brightness=factor, contrast=same, saturation=same),
        # PIL's factor 1 + 13 alpha, since PIL's smoothing kernel sums to 13; alpha
        # below 0, softening, is refused.
        library.Sharpen(alpha=(0.0, 0.9 / 13), lightness=same, p=1),
        library.CoarseDropout(
            (1, 1), hole_height_range=(0.0, 0.2), hole_width_range=(0.0, 0.2), p=1
        ),
    ]
    compose = library.Compose(
        [library.SomeOf(transforms, n=2, replace=False, p=1)], seed=SEED
    )
    return lambda image: compose(image=image)["image"]


def all_peers() -> list[Peer]:
    """All rows. The first one is hba on its natural input, with which the others are
    compared.
    """
    transform = transform_of_two()
    rand_augment = v2.RandAugment(num_ops=2)
    some_of = albumentations_two()

    def albumentations_peer(
        takes: str, call: Callable[[Transform, Tensor], Call]
    ) -> Peer:
        prepare = None if some_of is None else partial(call, some_of)
        return Peer("albumentations SomeOf", takes, "2", prepare)

    return [
        Peer(
            "hba",
            "uint8 batch",
            "2",
            lambda images: call_on_bytes(two_operations(len(images)), images, False),
        ),
        Peer(
            "hba",
            "uint8 to float32",
            "2",
            lambda images: call_on_bytes(two_operations(len(images)), images, True),
        ),
        Peer(
            "hba",
            "float32 batch",
            "2",
            lambda images: call_on_floats(two_operations(len(images)), images),
        ),
        Peer(
            "hba transform", "uint8 arrays", "2", partial(one_by_one, arrays, transform)
        ),
        Peer(
            "hba transform", "uint8 tensors", "2", partial(one_by_one, list, transform)
        ),
        Peer(
            "hba transform", "PIL images", "2", partial(one_by_one, pictures, transform)
        ),
        Peer(
            "hba transform",
            "PIL to float32",
            "2",
            partial(pictures_to_batch, transform),
        ),
        Peer(
            "torchvision RandAugment",
            "PIL images",
            "2",
            partial(one_by_one, pictures, rand_augment),
        ),
        Peer(
            "torchvision RandAugment",
            "PIL to float32",
            "2",
            partial(pictures_to_batch, rand_augment),
        ),
        Peer(
            "torchvision RandAugment",
            "uint8 tensors",
            "2",
            partial(one_by_one, list, rand_augment),
        ),
        Peer("kornia RandAugment", "float32 batch", "2 a batch", call_kornia),
        albumentations_peer("uint8 arrays", partial(one_by_one, arrays)),
        albumentations_peer("uint8 to float32", arrays_to_batch),
        Peer(
            "TrivialAugmentWide",
            "PIL images",
            "1",
            partial(one_by_one, pictures, v2.TrivialAugmentWide()),
        ),
    ]
