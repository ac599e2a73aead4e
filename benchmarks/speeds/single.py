"""Microseconds per image of single operations, compared with torchvision, kornia and
albumentations.
"""

from functools import partial
from typing import Any

import albumentations
import cv2
import kornia.augmentation as kornia
import torch
from common.timing import in_turns
from torch import Tensor
from torchvision.transforms import v2

from hba import Policy, SearchSpace
from hba.operations import STAGED
from hba.utils.text import as_markdown
from speeds.peers import Call, arrays, call_on_floats, one_by_one
from speeds.throughput import BATCH_SIZES, batches, seconds_per_call, shown

# One thread, like PyTorch here.
cv2.setNumThreads(0)
LIBRARIES = ("hba", "torchvision", "kornia", "albumentations")


def peers_of(side: int) -> dict[str, tuple[Any, Any, Any]]:
    """By operation, the transform of each library, always applied and about as strong;
    None if a library has none.
    """
    size = (side, side)
    scale = (0.75, 1.25)
    factor = (0.5, 1.5)
    area = (0.54, 1.0)
    of = albumentations
    degrees = 22.5
    still = dict.fromkeys(("brightness", "contrast", "saturation"), (1.0, 1.0))

    def jitter(name: str, change: float = 0.5) -> tuple[Any, Any, Any]:
        parameters: dict[str, Any] = {
            **still,
            "hue": (0.0, 0.0),
            name: factor if name in still else (-change, change),
        }
        only: dict[str, Any] = {name: change}
        return (
            v2.ColorJitter(**only),
            kornia.ColorJiggle(**only, p=1.0),
            of.ColorJitter(**parameters, p=1),
        )

    return {
        "HorizontalFlip": (
            v2.RandomHorizontalFlip(1.0),
            kornia.RandomHorizontalFlip(p=1.0),
            of.HorizontalFlip(p=1),
        ),
        "QuarterTurn": (
            None,
            kornia.RandomRotation90((1, 3), p=1.0),
            of.RandomRotate90(p=1),
        ),
        "ResizedCrop": (
            v2.RandomResizedCrop(size, area),
            kornia.RandomResizedCrop(size, area),
            of.RandomResizedCrop(size, area),
        ),
        "Zoom": (
            v2.RandomAffine(0, scale=scale),
            kornia.RandomAffine(0.0, scale=scale, p=1.0),
            of.Affine(scale, p=1),
        ),
        "Shear": (
            v2.RandomAffine(0, shear=degrees),
            kornia.RandomAffine(0.0, shear=degrees, p=1.0),
            of.Affine(shear=(-degrees, degrees), p=1),
        ),
        "Rotation": (
            v2.RandomRotation(degrees),
            kornia.RandomRotation(degrees, p=1.0),
            of.Rotate(degrees, p=1),
        ),
        "PaddedCrop": (
            v2.RandomCrop(side, side // 8),
            kornia.RandomCrop(size, side // 8),
            None,
        ),
        "BrightnessJitter": jitter("brightness"),
        "ContrastJitter": jitter("contrast"),
        "Hue": jitter("hue", 0.25),
        "Saturation": jitter("saturation"),
        "Gamma": (
            None,
            kornia.RandomGamma((0.7, 1.4), p=1.0),
            of.RandomGamma((70, 140), p=1),
        ),
        "Gray": (v2.Grayscale(3), kornia.RandomGrayscale(p=1.0), of.ToGray(p=1)),
        "Blur": (
            v2.GaussianBlur(5, (0.1, 1.2)),
            kornia.RandomGaussianBlur((5, 5), (0.1, 1.2), p=1.0),
            of.GaussianBlur(5, (0.1, 1.2), p=1),
        ),
        "Noise": (
            None,
            kornia.RandomGaussianNoise(std=0.1, p=1.0),
            of.GaussNoise((0.0, 0.1), p=1),
        ),
        "Jpeg": (
            v2.JPEG((55, 100)),
            kornia.RandomJPEG((55.0, 100.0), p=1.0),
            of.ImageCompression(p=1),
        ),
        "Perspective": (
            v2.RandomPerspective(0.25, 1.0),
            kornia.RandomPerspective(0.25, p=1.0),
            of.Perspective(p=1),
        ),
        "Elastic": (
            v2.ElasticTransform(),
            kornia.RandomElasticTransform(p=1.0),
            of.ElasticTransform(p=1),
        ),
        "Erase": (v2.RandomErasing(1.0), kornia.RandomErasing(p=1.0), of.Erasing(p=1)),
    }


def calls_of(images: Tensor) -> dict[tuple[str, str], Call]:
    """By operation and library. hba's operations act on all images with half of their
    largest magnitude.
    """
    calls: dict[tuple[str, str], Call] = {}
    floats = images.float() / 255
    for name, (torchvision, kornia_call, albumentations_call) in peers_of(
        images.shape[2]
    ).items():
        space = SearchSpace((STAGED[name],), count_probabilities=(1.0,))
        low, high = torch.tensor(space.ranges).unbind(1)
        row = torch.tensor([name.endswith("probability") for name in space.names])
        calls[name, "hba"] = call_on_floats(
            Policy(space, torch.where(row, 1.0, (low + high) / 2)), images
        )
        calls[name, "kornia"] = partial(kornia_call, floats)
        if torchvision is not None:
            calls[name, "torchvision"] = one_by_one(list, torchvision, images)
        if albumentations_call is not None:
            calls[name, "albumentations"] = one_by_one(
                arrays, partial(_on_array, albumentations_call), images
            )
    return calls


def _on_array(transform: Any, image: Any) -> Any:
    return transform(image=image)["image"]


def operations_table(rounds: int, seconds: float) -> str:
    """Markdown with one table for each image size."""
    parts = []
    for side, images in batches().items():
        timed = {
            key: partial(seconds_per_call, call, seconds)
            for key, call in calls_of(images).items()
        }
        times = in_turns(timed, rounds)
        batch_size = BATCH_SIZES[side]
        cells = {
            key: shown([1e6 * seconds / batch_size for seconds in rounds], ",.0f")
            for key, rounds in times.items()
        }
        rows = [
            [name, *(cells.get((name, library), "-") for library in LIBRARIES)]
            for name in peers_of(side)
        ]
        parts.append(as_markdown([f"{batch_size} of {side}x{side}", *LIBRARIES], rows))
    return "\n\n".join(parts)
