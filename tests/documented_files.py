"""The files that the commands of the documentation name, as small as can be."""

import contextlib
import csv
import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from documents import text_of
from PIL import Image

import hba

CLASSES = ("cat", "dog", "horse")
TINY: dict[str, Any] = {"epochs": 2, "batch_size": 8, "model": "wrn-10-1", "image_size": 8, "device": "cpu"}
TINY_TEXT = {"vocabulary_size": 20, "width": 4, "sequence_length": 5, "batch_size": 2, "epochs": 2}
SUB_POLICIES = [[("Rotate", 0.6, 0.7), ("Invert", 0.3, 0.2)], [("ShearX", 0.4, 0.8), ("Solarize", 0.5, 0.1)]]


def make_images(folder: Path) -> None:
    random = np.random.default_rng(0)
    for name in CLASSES:
        (folder / name).mkdir(parents=True)
        for number in range(12):
            pixels = random.integers(0, 256, (16, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")


def make_documented_runs(folder: Path, names: Iterable[str]) -> None:
    """Searches on the images in the folder, each in runs/NAME-1 or the like."""
    for seed, name in enumerate(names):
        hba.search(folder / name.split("-")[0], out=folder / "runs" / name, seed=seed, **TINY)


def make_documented_files(folder: Path) -> None:
    make_images(folder / "animals")
    for copy in ("DIR", "NEW_DIR"):
        shutil.copytree(folder / "animals", folder / copy)
    with contextlib.chdir(folder):
        make_documented_runs(Path(), ("animals-1", "animals-2", "DIR-1"))
        hba.search("animals", out="runs/tuned", tune="augmentation,dropout,weight-decay", **TINY)
        hba.data.prepare("DIR", "DIR.hba", image_size=TINY["image_size"])
        hba.repeated_search("DIR", seeds=2, out="runs/DIR-seeds", **TINY)
        shutil.copy("runs/animals-1/policy.json", "SCHEDULE")
        _make_tables()
        _make_arrays()
        _make_text(Path("TEXT"))
        hba.text.search("TEXT", out="runs/TEXT-1", **TINY_TEXT)  # type: ignore[arg-type]
        _make_policies_of_others()
        (example,) = re.findall(r"^```python\n(# mine\.py\n.*?)^```", text_of("docs/extending.md"), re.DOTALL | re.M)
        Path("mine.py").write_text(example, encoding="utf-8")


def _make_tables() -> None:
    images = [(path, path.parent.name) for path in sorted(Path("animals").glob("*/*.png"))]
    scenes = [(path, f"{label};odd" if int(path.stem) % 2 else label) for path, label in images]
    for name, head, rows in (
        ("labels.csv", ("path", "label"), images),
        ("birds.csv", ("photo", "species"), images),
        ("scenes.csv", ("path", "label"), scenes),
    ):
        with Path(name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([head, *rows])


def _make_arrays() -> None:
    random, labels = np.random.default_rng(1), np.arange(36) % 3
    images = random.integers(0, 256, (36, 16, 16, 3), dtype=np.uint8)
    parts = {"train": slice(0, 20), "val": slice(20, 28), "test": slice(28, 36)}
    arrays: dict[str, Any] = {f"{part}_images": images[rows] for part, rows in parts.items()}
    np.savez("pneumoniamnist.npz", **arrays, **{f"{part}_labels": labels[rows] for part, rows in parts.items()})
    np.savez("bands.npz", images=random.integers(0, 256, (36, 16, 16, 5), dtype=np.uint8), labels=labels)
    np.savez("scenes.npz", images=images, labels=np.eye(3, dtype=np.uint8)[labels] | np.eye(3, dtype=np.uint8)[[0]])


def _make_text(folder: Path) -> None:
    """Lines of five words, of which there are fifteen."""
    random, words = np.random.default_rng(2), [f"word{number}" for number in range(15)]
    folder.mkdir()
    for part, n_lines in (("train", 60), ("valid", 40), ("test", 40)):
        lines = (" ".join(random.choice(words, 5)) for _ in range(n_lines))
        folder.joinpath(f"{part}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _make_policies_of_others() -> None:
    hba.import_policy("torchvision", "autoaugment-cifar10").save("autoaugment.json")
    Path("archive.py").write_text(f"def fa_reduced_cifar10():\n    return {SUB_POLICIES}\n", encoding="utf-8")
    Path("genotype.py").write_text(f"CIFAR10 = {SUB_POLICIES}\n", encoding="utf-8")
    Path("log.txt").write_text(repr(["1", "0", 3, 2, [0] * 60, [3, 10, *[0] * 58]]) + "\n", encoding="utf-8")
    policy: dict[str, Any] = {"__class_fullname__": "Solarize", "p": 1.0, "threshold": [200, 200]}
    for kind in ("OneOf", "Sequential", "OneOf", "Compose"):
        policy = {"__class_fullname__": kind, "p": 1.0, "transforms": [policy]}
    Path("policy.json").write_text(json.dumps({"__version__": "0.5.2", "transform": policy}), encoding="utf-8")


def make_saved_dataset(folder: Path) -> None:
    import datasets

    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=list(CLASSES))})
    paths = sorted((folder / "animals").glob("*/*.*"))
    rows = {"image": [str(path) for path in paths], "label": [path.parent.name for path in paths]}
    datasets.Dataset.from_dict(rows, features).save_to_disk(folder / "saved_dataset")


def make_weights(path: Path) -> None:
    import timm

    torch.save(timm.create_model("resnet18", num_classes=len(CLASSES)).state_dict(), path)
