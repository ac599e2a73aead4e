"""Images with masks: bright squares on a dark ground, and folders of them."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from random_inputs import seeded
from torch import Tensor

from hba.data import EvaluationData, LabelledImages, SearchData

SIDE = 16
CLASS_NAMES = ("ground", "square")


def squares(n_images: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Images uint8 (N, 3, SIDE, SIDE), and masks uint8 (N, SIDE, SIDE) of a square in
    each.
    """
    generator = seeded(seed)
    masks = torch.zeros(n_images, SIDE, SIDE, dtype=torch.uint8)
    places = torch.randint(SIDE - 6, (n_images, 2), generator=generator)
    for mask, (row, column) in zip(masks, places.tolist(), strict=True):
        mask[row : row + 6, column : column + 6] = 1
    noise = torch.randint(40, (n_images, 3, SIDE, SIDE), generator=generator)
    images = (150 * masks[:, None] + 30 + noise).to(torch.uint8)
    return images, masks


def evaluation_data(n_train: int = 24, n_test: int = 12) -> EvaluationData:
    train, test = LabelledImages(*squares(n_train)), LabelledImages(*squares(n_test, 1))
    return EvaluationData("squares", CLASS_NAMES, train, test)


def search_data(n_train: int = 24, n_val: int = 12) -> SearchData:
    train, val = LabelledImages(*squares(n_train)), LabelledImages(*squares(n_val, 1))
    return SearchData("squares", CLASS_NAMES, train, val)


def write_pair(
    folder: Path, name: str, pixels: np.ndarray, mask: np.ndarray
) -> tuple[Path, Path]:
    """Write an image (H, W, 3) and its mask (H, W), and return their paths."""
    image_path, mask_path = (
        folder / part / f"{name}.png" for part in ("images", "masks")
    )
    for path, content in ((image_path, pixels), (mask_path, mask)):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(content).save(path)
    return image_path, mask_path


def write_folder(folder: Path, n_images: int = 20, seed: int = 0) -> Path:
    """Write images with masks."""
    for number, (image, mask) in enumerate(zip(*squares(n_images, seed), strict=True)):
        pixels = image.permute(1, 2, 0).numpy()
        write_pair(folder, f"{number:03}", pixels, mask.numpy())
    return folder
