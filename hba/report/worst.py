"""The test images whose masks a saved network finds worst, saved with a run so that its
report can show them.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image, PngImagePlugin
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from hba.data.images import EvaluationData
from hba.data.masks import overlay
from hba.report.examples import Example, Picture
from hba.schedule.summary import spaced
from hba.tasks import task_of
from hba.tasks.segmentation import mean_iou
from hba.training.trained_network import TrainedNetwork
from hba.utils.files import write_atomically

WORST_NAME = "worst_images.png"
"""The file of the images in the folder of an evaluation."""
N_WORST = 6
MOST_TRIED = 500
"""The images are among so many of the test, evenly spaced."""
MOST_SECONDS = 20.0
"""After so long, the worst of the images so far are taken."""
AT_ONCE = 16
"""Images that the network predicts together."""
ERRORS = "errors"
"""The text of the file with the error of each image."""


@dataclass(frozen=True)
class WorstImages:
    """Test images, from the largest error on."""

    images: Tensor
    """uint8 (N, C, S, S), C 1 or 3."""
    masks: Tensor
    """uint8 (N, S, S)."""
    answers: Tensor
    """The masks that the network finds, uint8 (N, S, S)."""
    error_percents: tuple[float, ...]
    """100 minus the mean IoU of the image alone, in per cent."""

    @staticmethod
    def of(network: TrainedNetwork, data: EvaluationData) -> "WorstImages":
        """The images of the test split with the largest errors.

        Args:
            network: The network of a training on these data.
            data: Images with masks.
        """
        test: Any = data.test.opened()
        task = task_of(test.labels)
        places = torch.tensor(spaced(len(test), MOST_TRIED), device=test.device)
        # Any first part of them is a fair sample.
        order = torch.randperm(len(places), generator=torch.Generator().manual_seed(0))
        places = places[order.to(places.device)]
        errors, answers = [], []
        began = time.monotonic()
        for images, labels in test.read(places.split(AT_ONCE)):
            with torch.no_grad():
                logits = network.module(images.cpu())
            statistics = task.statistics(logits, labels.cpu())
            errors.append(1 - mean_iou(statistics))
            answers.append(logits.argmax(dim=1).byte())
            if time.monotonic() - began > MOST_SECONDS:
                break
        worst = torch.cat(errors).argsort(descending=True, stable=True)[:N_WORST]
        ((images, labels),) = test.read([places[worst.to(places.device)]])
        n_shown = 3 if images.shape[1] >= 3 else 1
        return WorstImages(
            images[:, :n_shown].cpu(),
            labels.cpu(),
            torch.cat(answers)[worst],
            tuple((100 * torch.cat(errors)[worst]).tolist()),
        )

    def save(self, path: Path) -> None:
        """Write a PNG file, atomically: a column for each image, with its mask and its
        answer below it.
        """
        texts = PngImagePlugin.PngInfo()
        texts.add_text(ERRORS, json.dumps(self.error_percents))
        planes = [
            plane[:, None].expand_as(self.images)
            for plane in (self.masks, self.answers)
        ]
        columns = torch.cat([self.images, *planes], dim=2)
        strip = TF.to_pil_image(torch.cat([*columns], dim=2))
        write_atomically(
            path, lambda file: strip.save(file, format="PNG", pnginfo=texts)
        )

    @staticmethod
    def load(path: Path) -> "WorstImages":
        """Read a file that `save` wrote. Raises any exception for another file."""
        with Image.open(path) as strip:
            errors = tuple(map(float, json.loads(strip.info[ERRORS])))
            pixels = TF.pil_to_tensor(strip)
        columns = torch.stack(pixels.chunk(len(errors), dim=2))
        images, masks, answers = columns.chunk(3, dim=2)
        return WorstImages(images, masks[:, 0], answers[:, 0], errors)

    def examples(self) -> list[Example]:
        """The images for a page, with the classes of mask and answer in colors."""
        return [
            Example(
                f"{error:.0f} % error",
                "",
                "test image",
                (
                    Picture("image", image / 255),
                    Picture("mask", overlay(image, mask) / 255),
                    Picture("prediction", overlay(image, answer) / 255),
                ),
            )
            for image, mask, answer, error in zip(
                self.images, self.masks, self.answers, self.error_percents, strict=True
            )
        ]
