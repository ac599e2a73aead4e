"""What policy_throughput.py times: hba and its peers, each on the input that it is made for.

Peers keep their own defaults where nothing is said, black borders among them. albumentations is not a dependency of
hba; without it, its row says so.
"""

import functools
import importlib
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch
from kornia.augmentation.auto import RandAugment as KorniaRandAugment
from PIL import Image
from torch import Tensor
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as TF

from hba import Operation, Policy, PolicyTransform, Schedule, SearchSpace

SEED = 0

Call = Callable[[], object]
"""Augments a whole batch once."""


@dataclass(frozen=True)
class Peer:
    """A row of the table. prepare: uint8 images (B, C, H, W) to a call; None where the package is not installed."""

    name: str
    takes: str
    operations: str
    prepare: Callable[[Tensor], Call] | None


def policy_of(space: SearchSpace, probability: float, n_images: int) -> Policy:
    """Every slot with this probability, every magnitude drawn uniformly from its range, once for each image."""
    low, high = torch.tensor(space.ranges).unbind(1)
    values = torch.lerp(low, high, torch.rand(n_images, space.n, generator=torch.Generator().manual_seed(SEED)))
    is_probability = torch.tensor([name.endswith(".probability") for name in space.names])
    return Policy(space, torch.where(is_probability, probability, values))


def two_operations(n_images: int) -> Policy:
    """All operations in 30 slots, each firing with probability 0.5: two on every image, but for 3 in 10^8."""
    return policy_of(SearchSpace(count_probabilities=(0.0, 0.0, 1.0)), 0.5, n_images)


def transform_of_two() -> PolicyTransform:
    """Two of all operations on every image, with one policy for all of them."""
    policy = two_operations(1)
    return Schedule(policy.space, policy.values.double().numpy()).transform()


def one_operation(operation: Operation, n_images: int) -> Policy:
    """This operation, once on every image."""
    return policy_of(SearchSpace(operations=(operation,), copies=1, count_probabilities=(0.0, 1.0)), 1.0, n_images)


def call_on_floats(policy: Policy, images: Tensor) -> Call:
    """From a float32 batch to a float32 batch."""
    batch, generator = images.float() / 255, torch.Generator().manual_seed(SEED)
    return lambda: policy(batch, generator)


def call_from_bytes(policy: Policy, images: Tensor) -> Call:
    """From a uint8 batch to a float32 batch."""
    generator = torch.Generator().manual_seed(SEED)
    return lambda: policy(images.float() / 255, generator)


def call_on_bytes(policy: Policy, images: Tensor) -> Call:
    """From a uint8 batch to a uint8 batch."""
    generator = torch.Generator().manual_seed(SEED)
    return lambda: policy(images.float() / 255, generator).mul(255).round().to(torch.uint8)


def arrays(images: Tensor) -> list[np.ndarray[Any, Any]]:
    """uint8 (B, C, H, W) as contiguous arrays (H, W, C)."""
    return list(images.permute(0, 2, 3, 1).contiguous().numpy())


def one_by_one(transform: Callable[[Any], object], images: Iterable[Any]) -> Call:
    kept = list(images)
    return lambda: [transform(image) for image in kept]


def call_on_pil(transform: Callable[[Any], object], images: Tensor) -> Call:
    """From PIL images to PIL images."""
    return one_by_one(transform, map(Image.fromarray, arrays(images)))


def call_on_pil_for_batch(transform: Callable[[Any], Any], images: Tensor) -> Call:
    """From PIL images to a float32 batch, which a network can take."""
    kept = [Image.fromarray(array) for array in arrays(images)]
    return lambda: torch.stack([TF.pil_to_tensor(transform(image)) for image in kept]).float() / 255


def call_on_arrays(transform: Callable[[Any], object], images: Tensor) -> Call:
    """From uint8 arrays (H, W, C) to uint8 arrays."""
    return one_by_one(transform, arrays(images))


def call_on_arrays_for_batch(transform: Callable[[Any], Any], images: Tensor) -> Call:
    """From uint8 arrays (H, W, C) to a float32 batch (B, C, H, W), which a network can take."""
    kept = arrays(images)
    return lambda: (
        torch.from_numpy(np.stack([transform(array) for array in kept])).permute(0, 3, 1, 2).float().contiguous() / 255
    )


def kornia_rand_augment() -> Callable[[Tensor], Tensor]:
    """Without the matrices of its transformations, which nobody reads here; it is slower with them."""
    augment: Callable[[Tensor], Tensor] = KorniaRandAugment(n=2, m=10, transformation_matrix_mode="skip")
    return augment


def call_kornia(images: Tensor) -> Call:
    """From a float32 batch to a float32 batch."""
    batch = images.float() / 255
    return functools.partial(kornia_rand_augment(), batch)


def find_albumentations() -> tuple[ModuleType, ModuleType] | None:
    """albumentations and the OpenCV below it, held to one thread; None where one of them is not installed."""
    os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")  # It asks the network for its newest version otherwise.
    try:
        albumentations, opencv = importlib.import_module("albumentations"), importlib.import_module("cv2")
    except ImportError:
        return None
    opencv.setNumThreads(0)
    return albumentations, opencv


def albumentations_two(albumentations: Any, opencv: Any) -> Callable[[Any], object]:
    """Two of 15 transforms that come closest to hba's operations, in the same ranges where they can be set.

    What has several methods gets the one closest to PIL's, but for Equalize, where OpenCV's is the fast one.
    """
    still, same = (0.0, 0.0), (1.0, 1.0)
    degrees = math.degrees(math.atan(0.3))
    shear, shift, factor = (-degrees, degrees), (-0.45, 0.45), (0.1, 1.9)
    affine = functools.partial(albumentations.Affine, interpolation=opencv.INTER_NEAREST, p=1)
    jitter = functools.partial(albumentations.ColorJitter, hue=still, p=1)
    transforms = [
        affine(shear={"x": shear, "y": still}),
        affine(shear={"x": still, "y": shear}),
        affine(translate_percent={"x": shift, "y": still}),
        affine(translate_percent={"x": still, "y": shift}),
        affine(rotate=(-30.0, 30.0)),
        albumentations.AutoContrast(method="pil", p=1),
        albumentations.InvertImg(p=1),
        albumentations.Equalize(p=1),
        albumentations.Solarize(threshold_range=(0.0, 1.0), p=1),
        albumentations.Posterize(num_bits=(1, 7), p=1),
        jitter(brightness=same, contrast=factor, saturation=same),
        jitter(brightness=same, contrast=same, saturation=factor),
        jitter(brightness=factor, contrast=same, saturation=same),
        # PIL's factor 1 + 13 alpha, since PIL's smoothing kernel sums to 13; alpha below 0, softening, is refused.
        albumentations.Sharpen(alpha=(0.0, 0.9 / 13), lightness=same, p=1),
        albumentations.CoarseDropout((1, 1), hole_height_range=(0.0, 0.2), hole_width_range=(0.0, 0.2), p=1),
    ]
    some = albumentations.SomeOf(transforms, n=2, replace=False, p=1)
    compose = albumentations.Compose([some], seed=SEED)
    return lambda image: compose(image=image)["image"]


def all_peers() -> list[Peer]:
    """hba on its natural input comes first: what the others are compared with."""
    rand_augment = v2.RandAugment(num_ops=2)
    found = find_albumentations()
    albumentations = None if found is None else albumentations_two(*found)

    def albumentations_peer(takes: str, call: Callable[[Callable[[Any], Any], Tensor], Call]) -> Peer:
        prepare = None if albumentations is None else functools.partial(call, albumentations)
        return Peer("albumentations SomeOf", takes, "2", prepare)

    return [
        Peer("hba", "float32 batch", "2", lambda images: call_on_floats(two_operations(len(images)), images)),
        Peer("hba", "uint8 to float32", "2", lambda images: call_from_bytes(two_operations(len(images)), images)),
        Peer("hba", "uint8 and back", "2", lambda images: call_on_bytes(two_operations(len(images)), images)),
        Peer("hba transform", "PIL images", "2", functools.partial(call_on_pil, transform_of_two())),
        Peer("hba transform", "PIL to float32", "2", functools.partial(call_on_pil_for_batch, transform_of_two())),
        Peer("torchvision RandAugment", "PIL images", "2", functools.partial(call_on_pil, rand_augment)),
        Peer("torchvision RandAugment", "PIL to float32", "2", functools.partial(call_on_pil_for_batch, rand_augment)),
        Peer("torchvision RandAugment", "uint8 tensors", "2", functools.partial(one_by_one, rand_augment)),
        Peer("kornia RandAugment", "float32 batch", "2 a batch", call_kornia),
        albumentations_peer("uint8 arrays", call_on_arrays),
        albumentations_peer("uint8 to float32", call_on_arrays_for_batch),
        Peer("TrivialAugmentWide", "PIL images", "1", functools.partial(call_on_pil, v2.TrivialAugmentWide())),
    ]


NOTES = (
    "All: one thread, images in memory, no decoding; the images are pieces of scikit-learn's two photographs. Figures "
    "are the median (smallest-largest) over rounds in which all rows take turns. hba/peer divides medians: above 1 hba "
    "is faster. 'batch' is one call for all images, all else goes one by one.",
    "hba: draw and application, for every image its own two of 15 operations, order, magnitudes and signs. 'uint8 to "
    "float32' adds float() / 255 before; 'uint8 and back' also mul(255).round().to(uint8) after.",
    "hba transform: schedule.transform(), which does PIL images one by one with PIL; two of 15 operations.",
    "torchvision: magnitude 9 of 31 throughout. Its 14 operations have no Invert and no Cutout, and one of them is the "
    "identity. 'PIL images' ends with PIL images, 'PIL to float32' adds pil_to_tensor, stack and float() / 255.",
    "kornia: draws two operations for the whole batch, so that all images share them and the magnitude (m=10 of 30), "
    "not the sign; a call costs what its two operations cost, and calls differ. Bilinear, where all others take the "
    "nearest pixel. SolarizeAdd in place of Cutout. Matrices of transformations are switched off, which is faster.",
    "albumentations: 15 transforms close to hba's, the two drawn always in list order. Its Sharpen cannot soften (half "
    "of hba's range), Posterize keeps 1 to 7 bits, CoarseDropout's hole is a rectangle wholly inside the image, and "
    "Equalize is OpenCV's. 'uint8 to float32' adds stack, channels first, float() / 255.",
    "TrivialAugmentWide: torchvision's; one operation an image, of wider ranges. For context.",
)
