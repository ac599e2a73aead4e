"""The same small images as class folders, tables, arrays and a saved dataset."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas
from PIL import Image

CLASSES = ("10", "9", "cat", "dog")
"""Sorted as text, as folders are."""


class Shown(NamedTuple):
    """An image, below the folder of all. split: train, val or test."""

    path: str
    label: str
    split: str


def write_images(
    folder: Path, splits: Mapping[str, int], suffix: str = "png", seed: int = 0
) -> list[Shown]:
    """That many noisy images of each class in each split, 12x10, in folders
    <split>/<class>; in <class> for no split.
    """
    random = np.random.default_rng(seed)
    shown = []
    for split, count in splits.items():
        for label in CLASSES:
            for number in range(count):
                path = folder / split / label / f"{split}-{number:02}.{suffix}"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(
                    random.integers(0, 256, (10, 12, 3), dtype=np.uint8)
                ).save(path)
                shown.append(Shown(str(path.relative_to(folder)), label, split))
    return shown


def pixels(folder: Path, shown: Sequence[Shown]) -> np.ndarray:
    """(N, H, W, 3)."""
    return np.stack(
        [np.asarray(Image.open(folder / image.path).convert("RGB")) for image in shown]
    )


def as_frame(shown: Sequence[Shown]) -> pandas.DataFrame:
    """In an order that is none; without the column of splits where there are none."""
    frame = pandas.DataFrame(shown, columns=["path", "label", "split"]).sample(
        frac=1, random_state=0
    )
    return frame if all(image.split for image in shown) else frame.drop(columns="split")


def as_csv(folder: Path, shown: Sequence[Shown]) -> Path:
    as_frame(shown).to_csv(folder / "images.csv", index=False)
    return folder / "images.csv"


def as_parquet(folder: Path, shown: Sequence[Shown]) -> Path:
    as_frame(shown).to_parquet(folder / "images.parquet")
    return folder / "images.parquet"


def as_npz(folder: Path, shown: Sequence[Shown]) -> Path:
    """As MedMNIST does: train_images, train_labels (N, 1), ...; images and labels
    without splits.
    """
    arrays: dict[str, Any] = {}
    for split in dict.fromkeys(image.split for image in shown):
        of_split = [image for image in shown if image.split == split]
        before = f"{split}_" if split else ""
        arrays[f"{before}images"] = pixels(folder, of_split)
        arrays[f"{before}labels"] = np.array([[image.label] for image in of_split])
    np.savez_compressed(folder / "images.npz", **arrays)
    return folder / "images.npz"


def as_saved(folder: Path, shown: Sequence[Shown]) -> Path:
    """As `save_to_disk` does, the splits called train, validation and test."""
    import datasets

    datasets.disable_progress_bars()
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=list(CLASSES))}
    )
    splits = {}
    for split in dict.fromkeys(image.split for image in shown):
        of_split = [image for image in shown if image.split == split]
        columns = {
            "image": [str(folder / image.path) for image in of_split],
            "label": [image.label for image in of_split],
        }
        splits["validation" if split == "val" else split] = datasets.Dataset.from_dict(
            columns, features=features
        )
    if "" in splits:
        splits[""].save_to_disk(str(folder / "saved"))
    else:
        datasets.DatasetDict(splits).save_to_disk(str(folder / "saved"))
    return folder / "saved"


WRITERS: Mapping[str, Callable[[Path, Sequence[Shown]], Path]] = MappingProxyType(
    {"csv": as_csv, "parquet": as_parquet, "npz": as_npz, "saved": as_saved}
)
"""By format, what writes the images beside their folders and returns what to give to
hba.
"""
