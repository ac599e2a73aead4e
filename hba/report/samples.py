"""A few of the images that a run trained on, kept beside it so that its report shows what the schedule does to them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image, PngImagePlugin
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from hba.data.images import Images
from hba.data.labels import names_of
from hba.schedule.summary import spaced
from hba.utils.files import write_atomically

SAMPLES_NAME = "sample_images.png"
N_SAMPLES = 4
CLASSES = "classes"
"""Of the texts of the PNG file: the names of classes as JSON."""


@dataclass(frozen=True)
class Samples:
    """images: uint8 (C, H, W) each, all of one shape, C 1 or 3. class_names: one for each.

    Of other images, the first three channels are kept, of two the first.
    """

    images: tuple[Tensor, ...]
    class_names: tuple[str, ...]

    @staticmethod
    def of(images: Images, class_names: Sequence[str]) -> "Samples":
        """N_SAMPLES images, evenly spaced, the first and the last among them."""
        chosen = torch.tensor(spaced(len(images.labels), N_SAMPLES), device=images.labels.device)
        pixels, labels = next(images.batches(chosen, len(chosen)))
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
        """Read what `save` wrote; any exception for another file."""
        with Image.open(path) as strip:
            names = json.loads(strip.info[CLASSES])
            pixels = TF.pil_to_tensor(strip.convert("L" if strip.mode == "L" else "RGB"))
        return Samples(pixels.chunk(len(names), dim=2), tuple(map(str, names)))
