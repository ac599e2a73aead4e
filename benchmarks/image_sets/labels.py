"""Sets of images with masks and with numbers, for runs of `hba auto`."""

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from PIL import Image
from scipy import ndimage
from sklearn.datasets import load_digits
from torchvision.transforms.v2 import InterpolationMode, functional as TF

from hba.schedule.recipes import FLIP, TURNS, recipe_of
from hba.schedule.schedule import Schedule
from image_sets.runs import unpacked

MASKS = "auto-masks"
"""The question of the records of runs with masks."""
NUMBERS = "auto-numbers"
"""That of runs with numbers."""
N_DIGITS = 600
"""The number of images of digits that are turned."""
LARGEST_ANGLE = 60.0
"""In degrees."""
DIGITS_SIDE = 32
"""Side of turned digits in pixels."""
MMSEGMENTATION = {
    **FLIP,
    "Zoom": (1.0, 0.5),
    "PaddedCrop": (1.0, 0.25),
    "BrightnessJitter": (0.5, 32 / 255),
    "ContrastJitter": (0.5, 0.5),
    "Hue": (0.5, 18 / 360),
    "Saturation": (0.5, 0.5),
}
"""The training pipeline of MMSegmentation's configurations: RandomResize with a ratio
of 0.5 to 2, RandomCrop, RandomFlip and PhotoMetricDistortion with their defaults. Here,
the factor is between 0.5 and 1.5.
"""
POLICIES: Mapping[str, Callable[[], Schedule]] = {
    "mmsegmentation": partial(recipe_of, "mmsegmentation", MMSEGMENTATION),
    "turns-elastic": partial(
        recipe_of, "turns-elastic", {**TURNS, "Elastic": (0.5, 0.05)}
    ),
}
"""Policies that are no recipes."""


class LabelSet(NamedTuple):
    """A set of images."""

    question: str
    make: Callable[[str, Path], str]
    """Makes the data from its name and the folder of all, if they are missing."""
    options: tuple[str, ...] = ()
    """Of `hba auto`."""


def with_masks(name: str, work: Path) -> str:
    """The folder of a set with masks."""
    return unpacked(
        work / "sets" / "masks" / name, f"masks/{name}.tar.xz", "data", inside=name
    )


def whole_videos(name: str, work: Path) -> str:
    """The street scenes, with the validation images among those for training, because
    they are of the same videos. Whole videos are kept together by --group.
    """
    streets = Path(with_masks("camvid", work))
    folder = work / "sets" / name
    if not folder.exists():
        partial_folder = folder.with_suffix(".partial")
        shutil.rmtree(partial_folder, ignore_errors=True)
        for split in ("train", "val", "test"):
            kept_as = "test" if split == "test" else "train"
            shutil.copytree(
                streets / split, partial_folder / kept_as, dirs_exist_ok=True
            )
        partial_folder.rename(folder)
    return str(folder)


def nuclei_counts(name: str, work: Path) -> str:
    """A table of the number of separate nuclei in each image, with the splits of the
    set of masks.
    """
    folder = Path(with_masks("nuclei", work))
    path = folder / "counts.csv"
    rows = []
    for mask_path in sorted(folder.glob("*/masks/*.png")):
        mask = np.asarray(Image.open(mask_path))
        (image_path,) = (mask_path.parents[1] / "images").glob(f"{mask_path.stem}.*")
        count = ndimage.label(mask)[1]
        rows.append((image_path.relative_to(folder), count, mask_path.parts[-3]))
    pd.DataFrame(rows, columns=["path", "nuclei", "split"]).to_csv(path, index=False)
    return str(path)


def turned_digits(name: str, work: Path) -> str:
    """A table of scikit-learn's digits, each turned by a random angle, which is the
    number to find.
    """
    folder = work / "sets" / name
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    images = load_digits().images
    places = random.permutation(len(images))[:N_DIGITS]
    angles = random.uniform(-LARGEST_ANGLE, LARGEST_ANGLE, N_DIGITS).round(2)
    rows = []
    for number, (place, angle) in enumerate(zip(places, angles, strict=True)):
        pixels = np.round(images[place] * (255 / 16)).astype(np.uint8)
        image = TF.resize(Image.fromarray(pixels), [DIGITS_SIDE, DIGITS_SIDE])
        turned = TF.rotate(image, float(angle), InterpolationMode.BILINEAR)
        turned.save(folder / f"{number:03}.png")
        rows.append((f"{number:03}.png", angle))
    path = folder / "angles.csv"
    pd.DataFrame(rows, columns=["path", "angle"]).to_csv(path, index=False)
    return str(path)


LABEL_SETS: Mapping[str, LabelSet] = {
    "nuclei": LabelSet(MASKS, with_masks),
    "camvid": LabelSet(MASKS, with_masks),
    "camvid-videos": LabelSet(MASKS, whole_videos, ("--group", "([^/_]+)_")),
    "tiles": LabelSet(MASKS, with_masks),
    "nuclei-counts": LabelSet(NUMBERS, nuclei_counts, ("--target", "nuclei")),
    "turned-digits": LabelSet(NUMBERS, turned_digits, ("--target", "angle")),
}
"""All sets, by name."""
