"""Folders of small noisy images, and what is streamed from them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from hba.data.folder import folder_source
from hba.data.images import LabelledImages
from hba.data.loader import BatchStream, StreamedImages
from hba.data.pool import Pool

SIZE = 8
SMALL: dict[str, Any] = {
    "model": "wrn-10-1",
    "epochs": 2,
    "batch_size": 8,
    "device": "cpu",
    "image_size": SIZE,
}


def write_folder(folder: Path, n_per_class: int, suffix: str = "png") -> Path:
    """Two classes of noise; the first pixel's blue tells the number of the image."""
    rng = np.random.default_rng(0)
    for label, name in enumerate(("cat", "dog")):
        (folder / name).mkdir(parents=True)
        for index in range(n_per_class):
            pixels = rng.integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8)
            pixels[0, 0, 2] = (label * n_per_class + index) % 256
            Image.fromarray(pixels).save(folder / name / f"{index:03}.{suffix}")
    return folder


def pool_in(folder: Path, skip_broken: bool = False) -> Pool:
    return replace(
        folder_source(folder).train, image_size=SIZE, most_broken=99 * skip_broken
    )


def streamed(
    folder: Path, workers: int = 2, skip_broken: bool = False
) -> StreamedImages:
    return StreamedImages.of(pool_in(folder, skip_broken), workers)


def kept(folder: Path) -> LabelledImages:
    return pool_in(folder).read()


def passes(stream: BatchStream, n_batches: int) -> list[torch.Tensor]:
    return [
        torch.cat([images.flatten(1), labels[:, None]], 1)
        for images, labels in (stream.next() for _ in range(n_batches))
    ]
