"""The test split: nothing of it is read before it is measured on."""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from hba.data.images import ALL, CPU, Batch, Images
from hba.data.skipped import SkippedFile


@dataclass(frozen=True, eq=False, repr=False)
class LazySplit:
    """Images that are read when they are first asked for, and kept from then on.

    n_known: how many there are, where that is known without opening their file. image_size: side in pixels.
    is_streamed: whether they will stay in their files. not_images: other files that were found among theirs.
    """

    read: Callable[[], Images]
    n_known: int | None
    image_size: int
    device: torch.device = CPU
    is_streamed: bool = False
    not_images: tuple[SkippedFile, ...] = ()
    _kept: list[Images] = field(default_factory=list)

    def __repr__(self) -> str:
        count = "images" if self.n_known is None else f"{self.n_known} images"
        return f"LazySplit({count} of {self.image_size} pixels, {'read' if self._kept else 'not read yet'})"

    def opened(self) -> Images:
        """The images, read now if they were not before."""
        if not self._kept:
            self._kept.append(self.read().to(self.device))
        return self._kept[0]

    @property
    def skipped(self) -> tuple[str, ...]:
        return self._kept[0].skipped if self._kept else ()

    @property
    def left_out(self) -> tuple[SkippedFile, ...]:
        """What was found among the images, and once they are read, those that could not be."""
        return (*self.not_images, *(item for images in self._kept for item in images.left_out))

    def __len__(self) -> int:
        return len(self.opened())

    def to(self, device: torch.device) -> "LazySplit":
        return replace(self, device=device, _kept=[images.to(device) for images in self._kept])

    @property
    def labels(self) -> Tensor:
        return self.opened().labels

    def once(self, batch_size: int, share: slice = ALL) -> Generator[Batch]:
        return self.opened().once(batch_size, share)

    def share_left_out(self) -> None:
        for images in self._kept:
            images.share_left_out()

    def close(self) -> None:
        for images in self._kept:
            images.close()
