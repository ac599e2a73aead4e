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
    """An image, below the folder of all. part: train, val or test."""

    path: str
    label: str
    part: str


def write_images(
    folder: Path, parts: Mapping[str, int], kind: str = "png", seed: int = 0
) -> list[Shown]:
    """That many noisy images of each class in each part, 12x10, in folders
    <part>/<class>; in <class> for no part.
    """
    random = np.random.default_rng(seed)
    shown = []
    for part, count in parts.items():
        for label in CLASSES:
            for number in range(count):
                path = folder / part / label / f"{part}-{number:02}.{kind}"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(
                    random.integers(0, 256, (10, 12, 3), dtype=np.uint8)
                ).save(path)
                shown.append(Shown(str(path.relative_to(folder)), label, part))
    return shown


def pixels(folder: Path, shown: Sequence[Shown]) -> np.ndarray:
    """(N, H, W, 3)."""
    return np.stack(
        [np.asarray(Image.open(folder / one.path).convert("RGB")) for one in shown]
    )


def as_frame(shown: Sequence[Shown]) -> pandas.DataFrame:
    """In an order that is none; without the column of splits where there are none."""
    frame = pandas.DataFrame(shown, columns=["path", "label", "split"]).sample(
        frac=1, random_state=0
    )
    return frame if all(one.part for one in shown) else frame.drop(columns="split")


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
    for part in dict.fromkeys(one.part for one in shown):
        of_part = [one for one in shown if one.part == part]
        before = f"{part}_" if part else ""
        arrays[f"{before}images"] = pixels(folder, of_part)
        arrays[f"{before}labels"] = np.array([[one.label] for one in of_part])
    np.savez_compressed(folder / "images.npz", **arrays)
    return folder / "images.npz"


def as_saved(folder: Path, shown: Sequence[Shown]) -> Path:
    """As `save_to_disk` does, the splits called train, validation and test."""
    import datasets

    datasets.disable_progress_bars()
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=list(CLASSES))}
    )
    parts = {}
    for part in dict.fromkeys(one.part for one in shown):
        of_part = [one for one in shown if one.part == part]
        columns = {
            "image": [str(folder / one.path) for one in of_part],
            "label": [one.label for one in of_part],
        }
        parts["validation" if part == "val" else part] = datasets.Dataset.from_dict(
            columns, features=features
        )
    if "" in parts:
        parts[""].save_to_disk(str(folder / "saved"))
    else:
        datasets.DatasetDict(parts).save_to_disk(str(folder / "saved"))
    return folder / "saved"


WRITERS: Mapping[str, Callable[[Path, Sequence[Shown]], Path]] = MappingProxyType(
    {"csv": as_csv, "parquet": as_parquet, "npz": as_npz, "saved": as_saved}
)
"""By format, what writes the images beside their folders and returns what to give to
hba.
"""
