"""Changes of a bed to its images after reading: grey levels, a distribution shift,
noisy labels, fewer test images.
"""

import dataclasses
import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from common.images import SPLIT_SEED
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from hba.data import EvaluationData, LabelledImages, SearchData
from hba.data.images import Images
from hba.data.loader import as_floats
from hba.errors import DataError
from hba.utils.seeding import generator_for

CPU = torch.device("cpu")
Range = tuple[float, float]


@dataclass(frozen=True)
class Shift:
    """A distribution shift that no policy of the search space can make.

    Every image goes through all of these in this order, each with its own draw, uniform
    between two ends.
    """

    rotation: Range = (-25.0, 25.0)
    """In degrees, in one bilinear step with the zoom; uncovered pixels repeat the
    border.
    """
    zoom: Range = (0.8, 1.25)
    """The factor of the side that is shown, so the image grows below 1."""
    gamma: Range = (0.5, 2.5)
    """Exponent of the levels in [0, 1]; its logarithm is uniform."""
    blur: Range = (0.0, 1.0)
    """The share of the image after a 3x3 binomial filter, blended with the sharp image.
    """
    noise: Range = (0.0, 0.12)
    """Standard deviation of Gaussian noise on levels in [0, 1], which are clamped to
    [0, 1] afterwards.
    """

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Return new uint8 images (N, C, H, W) on the generator's device.

        Images with equal channels stay grey.
        """
        n_images, channels = images.shape[:2]
        is_grey = bool((images == images[:, :1]).all())

        def uniform(ends: Range) -> Tensor:
            return ends[0] + (ends[1] - ends[0]) * torch.rand(
                n_images, 1, 1, 1, generator=generator, device=images.device
            )

        levels = as_floats(images[:, :1] if is_grey else images)
        levels = _rotate(
            levels,
            torch.deg2rad(uniform(self.rotation)).flatten(),
            uniform(self.zoom).flatten(),
        )
        levels = (
            levels ** uniform((math.log(self.gamma[0]), math.log(self.gamma[1]))).exp()
        )
        levels = torch.lerp(levels, _blur(levels), uniform(self.blur))
        noise = torch.randn(levels.shape, generator=generator, device=images.device)
        shifted = (
            (levels + uniform(self.noise) * noise)
            .clamp(0, 1)
            .mul(255)
            .round()
            .to(torch.uint8)
        )
        return shifted.expand(n_images, channels, -1, -1).contiguous()


def _rotate(images: Tensor, angle: Tensor, zoom: Tensor) -> Tensor:
    """images (N, C, H, W); angle in radians and zoom (N,)."""
    cosine = zoom * angle.cos()
    sine = zoom * angle.sin()
    nothing = torch.zeros_like(angle)
    rows = torch.stack([cosine, -sine, nothing, sine, cosine, nothing], dim=1).reshape(
        -1, 2, 3
    )
    grid = F.affine_grid(rows, list(images.shape), align_corners=False)
    # Rounding in the interpolation must not leave [0, 1], where a power is not defined.
    return F.grid_sample(
        images, grid, padding_mode="border", align_corners=False
    ).clamp(0, 1)


def _blur(images: Tensor) -> Tensor:
    """images (N, C, H, W); pixels outside of the image repeat the border."""
    line = torch.tensor((0.25, 0.5, 0.25), device=images.device)
    kernel = torch.outer(line, line).expand(images.shape[1], 1, 3, 3)
    return F.conv2d(
        F.pad(images, (1, 1, 1, 1), mode="replicate"), kernel, groups=images.shape[1]
    )


@dataclass(frozen=True)
class View:
    """Changes the images of a bed.

    Images must be in memory and on the CPU, so that a shift is the same on every
    machine.
    """

    grey: bool = False
    """Three equal channels with the luma, for all images."""
    shift: Shift | None = None
    """A shift of validation and test images, always the same."""
    test_size: int | None = None
    """Number of test images, stratified and always the same; None keeps all."""
    label_noise: float = 0.0
    """Share of training images whose label is replaced by a random one, always the
    same; 0 for none.
    """

    def of_search(self, data: SearchData) -> SearchData:
        train = self._noisy(self._colored(data.train), len(data.class_names))
        return dataclasses.replace(
            data, train=train, val=self._shifted(self._colored(data.val), "validation")
        )

    def of_training(self, data: EvaluationData) -> EvaluationData:
        """Read and change the test images, too."""
        test = data.test.opened()
        test = self._shifted(self._colored(self._part(_in_memory(test))), "test")
        train = self._noisy(self._colored(data.train), len(data.class_names))
        return dataclasses.replace(data, train=train, test=test)

    def as_json(self) -> dict[str, Any]:
        """The entries in use. They are part of a record, and so of its digest."""
        return {name: value for name, value in asdict(self).items() if value}

    def _colored(self, images: Images) -> LabelledImages:
        kept = _in_memory(images)
        return (
            dataclasses.replace(kept, images=TF.rgb_to_grayscale(kept.images, 3))
            if self.grey
            else kept
        )

    def _noisy(self, images: LabelledImages, n_classes: int) -> LabelledImages:
        """A random label may happen to be the right one."""
        if not self.label_noise:
            return images
        generator = generator_for(0, "noise of training labels", CPU)
        is_noisy = torch.rand(len(images), generator=generator) < self.label_noise
        random = torch.randint(0, n_classes, (len(images),), generator=generator)
        return dataclasses.replace(
            images, labels=torch.where(is_noisy, random, images.labels)
        )

    def _shifted(self, images: LabelledImages, split: str) -> LabelledImages:
        if self.shift is None:
            return images
        generator = generator_for(0, f"shift of {split} images", CPU)
        return dataclasses.replace(images, images=self.shift(images.images, generator))

    def _part(self, images: LabelledImages) -> LabelledImages:
        from sklearn.model_selection import train_test_split

        if self.test_size is None or self.test_size == len(images):
            return images
        if self.test_size > len(images):
            raise DataError(
                f"the bed takes {self.test_size} test images, but there are"
                f" {len(images)}"
            )
        numbers = torch.arange(len(images)).numpy()
        labels = images.labels.numpy()
        chosen, _ = train_test_split(
            numbers, train_size=self.test_size, stratify=labels, random_state=SPLIT_SEED
        )
        chosen = torch.from_numpy(chosen).sort().values
        return dataclasses.replace(
            images, images=images.images[chosen], labels=images.labels[chosen]
        )


def _in_memory(images: Images) -> LabelledImages:
    if not isinstance(images, LabelledImages):
        raise DataError("a bed needs images that are in memory")
    return images
