"""A few of the images that a run trained on, kept beside it: its report shows what the schedule makes of them."""

import contextlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image, PngImagePlugin
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from hba.data.images import Images
from hba.data.labels import is_multi_label, names_of, present_classes
from hba.errors import RunError
from hba.utils.files import write_atomically

SAMPLES_NAME = "sample_images.png"
N_SAMPLES = 4
CLASSES = "classes"
"""Of the PNG's texts: the names, as JSON."""
CHANNELS = "channels"
"""Of them, the number that the images have, where not all are shown."""


@dataclass(frozen=True)
class Samples:
    """images: uint8 (C, H, W) each, all of one shape, C 1 or 3. class_names: one for each. n_channels: of the images as
    they are, of which the first three are kept, or of two the first; None where all are.
    """

    images: tuple[Tensor, ...]
    class_names: tuple[str, ...]
    n_channels: int | None = None

    @staticmethod
    def of(images: Images, class_names: Sequence[str]) -> "Samples":
        """The first images of classes that are evenly spread over all, each class once before any twice."""
        chosen = torch.from_numpy(_chosen(images.labels.cpu().numpy())).to(images.labels.device)
        with contextlib.closing(images.batches(chosen, len(chosen))) as batches:
            pixels, labels = next(batches)
        names = tuple(names_of(label, class_names) for label in labels.cpu())
        n_shown = 3 if images.n_channels >= 3 else 1
        n_channels = None if images.n_channels == n_shown else images.n_channels
        return Samples(tuple(pixels[:, :n_shown].cpu()), names, n_channels)

    @property
    def note(self) -> str:
        """What is shown of the channels; empty where all are."""
        shown = "the first channel" if len(self.images[0]) == 1 else "the first three channels"
        return "" if self.n_channels is None else f"{shown} of {self.n_channels}"

    def save(self, path: Path) -> None:
        """All of them side by side in one PNG file, whole or not at all."""
        texts = PngImagePlugin.PngInfo()
        texts.add_text(CLASSES, json.dumps(self.class_names))
        if self.n_channels is not None:
            texts.add_text(CHANNELS, str(self.n_channels))
        strip = TF.to_pil_image(torch.cat(self.images, dim=2))
        write_atomically(path, lambda file: strip.save(file, format="PNG", pnginfo=texts))

    @staticmethod
    def load(path: Path) -> "Samples":
        """RunError for a file that `save` did not write."""
        try:
            with Image.open(path) as strip:
                names = json.loads(strip.info[CLASSES])
                pixels = TF.pil_to_tensor(strip.convert("L" if strip.mode == "L" else "RGB"))
                n_channels = int(strip.info[CHANNELS]) if CHANNELS in strip.info else None
            if not isinstance(names, list) or not names or pixels.shape[2] % len(names):
                raise ValueError("it does not tell the classes of its images")
        except Exception as error:
            # Pillow raises exceptions of any kind for damaged files.
            raise RunError(f"{path} cannot be read as the images of a run: {error}") from None
        return Samples(pixels.chunk(len(names), dim=2), tuple(map(str, names)), n_channels)


def _chosen(labels: np.ndarray) -> np.ndarray:
    present = np.array(present_classes(labels))
    if len(present) > N_SAMPLES:
        present = present[np.linspace(0, len(present) - 1, N_SAMPLES).round().astype(int)]
    rounds = itertools.zip_longest(*(np.flatnonzero(_has(labels, label)) for label in present))
    in_turns = (place for places in rounds for place in places if place is not None)
    # An image of several classes comes by in the turn of each.
    return np.array(list(itertools.islice(dict.fromkeys(in_turns), N_SAMPLES)))


def _has(labels: np.ndarray, label: int) -> np.ndarray:
    """Which images (N,) are of the class."""
    return labels[:, label] if is_multi_label(labels) else labels == label
