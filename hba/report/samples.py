"""A few training images of a run, saved with it so that its report can show how the
schedule augments them.
"""

import contextlib
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, PngImagePlugin
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from hba.data.images import EvaluationData, Images, SearchData
from hba.data.pool import Pool
from hba.errors import DataError
from hba.results.run import Run, read_part
from hba.schedule.summary import spaced
from hba.tasks import task_of
from hba.utils.files import write_atomically

SAMPLES_NAME = "sample_images.png"
"""The file of the images as the network gets them."""
NATIVE_NAME = "native_images.png"
"""The file of the same at their own resolution, if that is higher."""
MASKS_TEXT = "masks"
"""The text of a file with masks."""
N_SAMPLES = 8
LARGEST_NATIVE = 256
"""Largest side in pixels; larger images are resized."""


@dataclass(frozen=True)
class Samples:
    """images: uint8 (C, H, W) each, all of one shape, C 1 or 3. class_names: one for
    each. masks: uint8 (H, W) each; None if labels are no masks.

    Images with more channels keep the first three; those with two keep the first.
    """

    images: tuple[Tensor, ...]
    class_names: tuple[str, ...]
    masks: tuple[Tensor, ...] | None = None

    @staticmethod
    def of(data: SearchData | EvaluationData) -> "Mapping[str, Samples]":
        """N_SAMPLES training images from as many classes as possible, by the name of
        their file.
        """
        images = data.train
        pool = data.train_pool
        task = task_of(images.labels)
        chosen = chosen_of(images.labels.cpu().numpy())
        pixels, labels = next(
            images.batches(
                torch.tensor(chosen, device=images.labels.device), len(chosen)
            )
        )
        labels = labels.cpu()
        names = tuple(map(data.words_of, labels))
        n_shown = 3 if images.n_channels >= 3 else 1
        masks = tuple(labels) if task.has_masks else None
        samples = {
            SAMPLES_NAME: Samples(tuple(pixels[:, :n_shown].cpu()), names, masks)
        }
        # Files may have changed since they were read.
        with contextlib.suppress(DataError):
            if native := [] if pool is None else _native(images, pool, chosen):
                side = native[0].shape[-1]
                if task.has_masks:
                    enlarged = F.interpolate(labels[:, None], (side, side))
                    masks = tuple(enlarged[:, 0])
                samples[NATIVE_NAME] = Samples(
                    tuple(image[:n_shown] for image in native), names, masks
                )
        return samples

    def save(self, path: Path) -> None:
        """Write the images side by side into one PNG file, atomically, and below them
        the masks; its text `classes` has the names as JSON.
        """
        texts = PngImagePlugin.PngInfo()
        texts.add_text("classes", json.dumps(self.class_names))
        pixels = torch.cat(self.images, dim=2)
        if self.masks is not None:
            texts.add_text(MASKS_TEXT, "below the images")
            planes = torch.cat(self.masks, dim=1).expand_as(pixels)
            pixels = torch.cat([pixels, planes], dim=1)
        strip = TF.to_pil_image(pixels)
        write_atomically(
            path, lambda file: strip.save(file, format="PNG", pnginfo=texts)
        )

    @staticmethod
    def load(path: Path) -> "Samples":
        """Read a file that `save` wrote. Raises any exception for another file."""
        with Image.open(path) as strip:
            names = json.loads(strip.info["classes"])
            has_masks = MASKS_TEXT in strip.info
            pixels = TF.pil_to_tensor(
                strip.convert("L" if strip.mode == "L" else "RGB")
            )
        columns = pixels.chunk(len(names), dim=2)
        class_names = tuple(map(str, names))
        if not has_masks:
            return Samples(columns, class_names)
        images, planes = zip(
            *(column.chunk(2, dim=1) for column in columns), strict=True
        )
        return Samples(images, class_names, tuple(plane[0] for plane in planes))


def read_samples(run: Run) -> tuple[Samples | None, Samples | None]:
    """Read the images that are saved with a run.

    Args:
        run: The run that a page shows.

    Returns:
        The images as the network gets them, and the same at their own resolution. Each
        is None if the folder has no such file.

    Raises:
        RunError: If a file is broken.
    """
    searched, tested = run.folders
    folder = searched if (searched / SAMPLES_NAME).exists() else tested
    return (
        read_part(folder / SAMPLES_NAME, Samples.load),
        read_part(folder / NATIVE_NAME, Samples.load),
    )


def chosen_of(labels: np.ndarray) -> list[int]:
    """At most N_SAMPLES indices of images, evenly from all classes; for several labels,
    evenly spaced images.
    """
    strata = task_of(labels).strata(labels)
    order = strata.argsort(kind="stable")
    classes, first, counts = np.unique(
        strata[order], return_index=True, return_counts=True
    )
    if len(classes) == 1:
        return spaced(len(labels), N_SAMPLES)
    place = np.arange(len(order)) - np.repeat(first, counts)
    # The first image of each class, then the second of each.
    by_turns = order[np.lexsort((strata[order], place))]
    n_candidates = min(max(N_SAMPLES, len(classes)), len(labels))
    return [int(by_turns[index]) for index in spaced(n_candidates, N_SAMPLES)]


def _native(images: Images, pool: Pool, chosen: Sequence[int]) -> list[Tensor]:
    """The images at their own resolution, all at their median side; empty if training
    uses as many pixels.
    """
    lost = {file.path for file in images.left_out}
    numbers = (
        [n for n in pool.numbers.tolist() if pool.items.name(n) not in lost]
        if lost
        else pool.numbers.tolist()
    )
    if len(numbers) != len(images):
        return []
    side = min(
        LARGEST_NATIVE,
        statistics.median_low(pool.items.side(numbers[index]) for index in chosen),
    )
    shown = chosen if side > images.image_size else ()
    return [pool.items.read(numbers[index], side, pool.levels) for index in shown]
