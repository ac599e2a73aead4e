"""torchvision's published augmentations in the place of a schedule."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms import TrivialAugmentWide
from torchvision.transforms.functional import get_dimensions

from hba.data.images import Images
from hba.data.loader import as_floats
from hba.importers.torchvision_policies import PHOTOGRAPH_SIDE
from hba.training.augmentation import Augment


class MakeTransform(Protocol):
    """A class of torchvision.transforms, with the arguments that are not at their default."""

    def __call__(self, *, fill: list[int]) -> Any: ...


@dataclass(frozen=True)
class TorchvisionPolicy:
    """A transform of torchvision.transforms for 8-bit images, each image on its own draw.

    Draws come from torch's default generator. What is uncovered takes the mean colour of the training images. Images
    go through PIL one by one, on the CPU: 1.1 to 2.7 times as fast as tensors are, from 16 to 224 pixels.
    """

    definition: str
    make: MakeTransform

    def by_epoch(self, epochs: int, train: Images) -> Sequence[Augment]:
        transform = self.make(fill=[round(255 * channel) for channel in train.mean_color()])
        return [partial(_augment, transform)] * epochs


def _augment(transform: Any, images: Tensor, generator: torch.Generator) -> Tensor:
    levels = (images * 255).round().to(torch.uint8).permute(0, 2, 3, 1).cpu().numpy()
    # PIL has no images of one channel in three dimensions.
    pictures = levels[..., 0] if levels.shape[-1] == 1 else levels
    augmented = np.stack([np.asarray(transform(Image.fromarray(picture))) for picture in pictures])
    return as_floats(torch.from_numpy(augmented.reshape(levels.shape)).permute(0, 3, 1, 2).to(images.device))


class ScaledTrivialAugment(TrivialAugmentWide):  # type: ignore[misc]
    """torchvision's TrivialAugmentWide, whose shifts shrink with images that are smaller than a photograph.

    It shifts by up to 32 pixels whatever the images' size, which is twice the side of an image of 16 pixels. Here the
    largest shift is that share of the side that it is of PHOTOGRAPH_SIDE pixels; from there on, it is torchvision's,
    draw for draw. As there, a shift is cut to whole pixels.
    """

    def forward(self, img: Any) -> Any:
        _, self._height, self._width = get_dimensions(img)
        return super().forward(img)

    def _augmentation_space(self, num_bins: int) -> dict[str, tuple[Tensor, bool]]:
        space = dict(super()._augmentation_space(num_bins))
        for name, side in (("TranslateX", self._width), ("TranslateY", self._height)):
            pixels, is_signed = space[name]
            space[name] = (pixels * min(1.0, side / PHOTOGRAPH_SIDE), is_signed)
        return space
