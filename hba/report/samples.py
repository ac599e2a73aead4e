"""A few of the images that a run trained on, kept beside it so that its report shows what the schedule does to them."""

import base64
import contextlib
import dataclasses
import io
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image, PngImagePlugin
from torch import Tensor
from torchvision.transforms.v2 import functional as TF
from torchvision.utils import make_grid

from hba.data.images import Images
from hba.data.labels import is_multi_label, names_of, present_classes
from hba.errors import RunError
from hba.schedule.pictures import AugmentedCopy, augmented_copies
from hba.schedule.schedule import Schedule
from hba.schedule.summary import key_epochs
from hba.utils.files import write_atomically

SAMPLES_NAME = "sample_images.png"
N_SAMPLES = 4
CLASSES = "classes"
"""Of the texts of the PNG file: the names of classes as JSON."""
N_COPIES = 3
MOST_SIDE = 160
"""In pixels; larger images are shown smaller."""
LARGEST_EXACT_SIDE = 64
"""Up to this side, images are shown as PNG, which keeps every pixel; larger ones as JPEG."""


@dataclass(frozen=True)
class Samples:
    """images: uint8 (C, H, W) each, all of one shape, C 1 or 3. class_names: one for each.

    Of other images, the first three channels are kept, of two the first.
    """

    images: tuple[Tensor, ...]
    class_names: tuple[str, ...]

    @staticmethod
    def of(images: Images, class_names: Sequence[str]) -> "Samples":
        """The first images of classes that are evenly spread over all, each class once before any twice."""
        chosen = torch.from_numpy(_chosen(images.labels.cpu().numpy())).to(images.labels.device)
        with contextlib.closing(images.batches(chosen, len(chosen))) as batches:
            pixels, labels = next(batches)
        names = tuple(names_of(label, class_names) for label in labels.cpu())
        n_shown = 3 if images.n_channels >= 3 else 1
        return Samples(tuple(pixels[:, :n_shown].cpu()), names)

    def save(self, path: Path) -> None:
        """All of them side by side in one PNG file, written whole or not at all."""
        texts = PngImagePlugin.PngInfo()
        texts.add_text(CLASSES, json.dumps(self.class_names))
        strip = TF.to_pil_image(torch.cat(self.images, dim=2))
        write_atomically(path, lambda file: strip.save(file, format="PNG", pnginfo=texts))

    @staticmethod
    def load(path: Path) -> "Samples":
        """RunError for a file that `save` did not write."""
        try:
            with Image.open(path) as strip:
                names = json.loads(strip.info[CLASSES])
                pixels = TF.pil_to_tensor(strip.convert("L" if strip.mode == "L" else "RGB"))
            if not isinstance(names, list) or not names or pixels.shape[2] % len(names):
                raise ValueError("it does not name the classes of its images")
        except Exception as error:
            # Pillow raises exceptions of any kind for damaged files.
            raise RunError(f"{path} cannot be read as the images of a run: {error}") from None
        return Samples(pixels.chunk(len(names), dim=2), tuple(map(str, names)))


def _chosen(labels: np.ndarray) -> np.ndarray:
    present = np.array(present_classes(labels))
    if len(present) > N_SAMPLES:
        present = present[np.linspace(0, len(present) - 1, N_SAMPLES).round().astype(int)]
    of_each = (labels[:, label] if is_multi_label(labels) else labels == label for label in present)
    rounds = itertools.zip_longest(*map(np.flatnonzero, of_each))
    in_turns = (place for places in rounds for place in places if place is not None)
    # An image of several classes comes up in the turn of each.
    return np.array(list(itertools.islice(dict.fromkeys(in_turns), N_SAMPLES)))


class Picture(NamedTuple):
    """An image in the page. source: a data URI. is_exact: every pixel is kept. caption: lines below it."""

    source: str
    description: str
    is_exact: bool
    caption: list[str]


class Stage(NamedTuple):
    """Pictures at one time of the schedule: n_copies of the first image, then of the next."""

    title: str
    note: str
    pictures: list[Picture]
    n_copies: int


def stages(schedule: Schedule, samples: Samples) -> list[Stage]:
    """The images as they are, and as `hba apply` augments them in the first, the middle and the last epoch."""
    originals = [
        _picture(image.float() / 255, f"{name}, as it is", [name])
        for image, name in zip(samples.images, samples.class_names, strict=True)
    ]
    found = [Stage("As they are", "", originals, 1)]
    for epoch, copies in _augmented(schedule, samples):
        pictures = []
        for name, of_image in zip(samples.class_names, copies, strict=True):
            for copy in of_image:
                made_by = copy.made_by.splitlines()
                words = f"{name}, augmented as in epoch {epoch + 1}: {', '.join(made_by)}"
                pictures.append(_picture(copy.image, words, made_by))
        when = {0: "at the beginning", schedule.epochs - 1: "at the end"}.get(epoch, "in the middle")
        found.append(Stage(f"Epoch {epoch + 1}", when, pictures, N_COPIES))
    return found


def grid(schedule: Schedule, samples: Samples) -> Tensor:
    """The same as one picture, float (C, H, W) in [0, 1]: a row for each image."""
    augmented = _augmented(schedule, samples)
    cells = [
        cell
        for number, image in enumerate(samples.images)
        for cell in (image.float() / 255, *(copy.image for _, copies in augmented for copy in copies[number]))
    ]
    picture: Tensor = make_grid(cells, nrow=1 + N_COPIES * len(augmented))
    return picture


def _augmented(schedule: Schedule, samples: Samples) -> list[tuple[int, list[list[AugmentedCopy]]]]:
    """Copies of each image at each of the key epochs."""
    if len(schedule.fill) > 1:
        # Operations for any number of channels treat each alone, so those that are shown are enough.
        schedule = dataclasses.replace(schedule, fill=schedule.fill[: len(samples.images[0])])
    return [
        (epoch, list(augmented_copies(schedule, samples.images, epoch=epoch, n_copies=N_COPIES, seed=0)))
        for epoch in key_epochs(schedule)
    ]


def _picture(image: Tensor, description: str, caption: list[str]) -> Picture:
    """image: float (C, H, W) in [0, 1]."""
    is_exact = max(image.shape[1:]) <= LARGEST_EXACT_SIDE
    picture, written = TF.to_pil_image((image * 255).round().byte()), io.BytesIO()
    picture.thumbnail((MOST_SIDE, MOST_SIDE), Image.Resampling.LANCZOS)
    kind = "png" if is_exact else "jpeg"
    picture.save(written, kind, **({"optimize": True} if is_exact else {"quality": 85}))
    source = f"data:image/{kind};base64,{base64.b64encode(written.getvalue()).decode()}"
    return Picture(source, description, is_exact, caption)
