"""The files that the commands of the documentation name, as small as can be."""

import contextlib
import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from documents import text_of
from PIL import Image

import hba

CLASSES = ("cat", "dog", "horse")
N_OF_EACH = 12
TINY: dict[str, Any] = {"epochs": 2, "batch_size": 8, "model": "wrn-10-1", "image_size": 8, "device": "cpu"}
SUB_POLICIES = [[("Rotate", 0.6, 0.7), ("Invert", 0.3, 0.2)], [("ShearX", 0.4, 0.8), ("Solarize", 0.5, 0.1)]]
SOLARIZED = {"__class_fullname__": "Solarize", "always_apply": False, "p": 1.0, "threshold": [200, 200]}


TINY_TEXT: dict[str, Any] = {
    "vocabulary_size": 20,
    "width": 4,
    "sequence_length": 5,
    "batch_size": 2,
    "epochs": 2,
}


def make_documented_files(folder: Path, weights: Path) -> None:
    """Into an empty folder. weights: of timm's ResNet-18, which the folder gets a link to."""
    with contextlib.chdir(folder):
        _make_images()
        _make_tables()
        _make_arrays()
        _make_runs()
        _make_policies_of_others()
        make_text(Path("TEXT"))
        hba.text.search("TEXT", out="runs/TEXT-1", **TINY_TEXT)
        (example,) = re.findall(r"^```python\n(# mine\.py\n.*?)^```", text_of("docs/extending.md"), re.DOTALL | re.M)
        Path("mine.py").write_text(example, encoding="utf-8")
        Path("weights.pth").symlink_to(weights)


def make_text(folder: Path) -> None:
    """A folder of text: lines of five words, of which there are fifteen."""
    random, words = np.random.default_rng(2), [f"word{number}" for number in range(15)]
    folder.mkdir()
    for part, n_lines in (("train", 60), ("valid", 40), ("test", 40)):
        lines = (" ".join(random.choice(words, 5)) for _ in range(n_lines))
        folder.joinpath(f"{part}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _make_images() -> None:
    random = np.random.default_rng(0)
    for name in CLASSES:
        for number in range(N_OF_EACH):
            path = Path("animals", name, f"{number}.png")
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(random.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(path)
    for copy in ("DIR", "NEW_DIR"):
        shutil.copytree("animals", copy)


def _make_tables() -> None:
    images = [(path, path.parent.name) for path in sorted(Path("animals").glob("*/*.png"))]
    _write_table("labels.csv", ("path", "label"), images)
    _write_table("birds.csv", ("photo", "species"), images)
    scenes = [(path, f"{label};odd" if int(path.stem) % 2 else label) for path, label in images]
    _write_table("scenes.csv", ("path", "label"), scenes)


def _write_table(name: str, columns: tuple[str, str], rows: list[tuple[Path, str]]) -> None:
    with Path(name).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([columns, *rows])


def _make_arrays() -> None:
    random = np.random.default_rng(1)
    labels = np.arange(36) % 3
    images = random.integers(0, 256, (36, 16, 16, 3), dtype=np.uint8)
    parts = {"train": slice(0, 20), "val": slice(20, 28), "test": slice(28, 36)}
    arrays: dict[str, Any] = {f"{part}_images": images[rows] for part, rows in parts.items()}
    arrays |= {f"{part}_labels": labels[rows] for part, rows in parts.items()}
    np.savez("pneumoniamnist.npz", **arrays)
    np.savez("bands.npz", images=random.integers(0, 256, (36, 16, 16, 5), dtype=np.uint8), labels=labels)
    np.savez("scenes.npz", images=images, labels=np.eye(3, dtype=np.uint8)[labels] | np.eye(3, dtype=np.uint8)[[0]])


def make_saved_dataset(folder: Path) -> None:
    import datasets

    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=list(CLASSES))})
    paths = sorted((folder / "animals").glob("*/*.png"))
    rows = {"image": [str(path) for path in paths], "label": [path.parent.name for path in paths]}
    datasets.Dataset.from_dict(rows, features).save_to_disk(folder / "saved_dataset")


def make_weights(path: Path) -> None:
    import timm

    torch.save(timm.create_model("resnet18", num_classes=len(CLASSES)).state_dict(), path)


def _make_runs() -> None:
    for data, out, seed in (("animals", "animals-1", 0), ("animals", "animals-2", 1), ("DIR", "DIR-1", 0)):
        hba.search(data, out=Path("runs", out), seed=seed, **TINY)
    hba.search("animals", out=Path("runs", "tuned"), tune="augmentation,dropout,weight-decay", **TINY)
    shutil.copy("runs/animals-1/policy.json", "SCHEDULE")


def _make_policies_of_others() -> None:
    hba.import_policy("torchvision", "autoaugment-cifar10").save("autoaugment.json")
    Path("archive.py").write_text(f"def fa_reduced_cifar10():\n    return {SUB_POLICIES}\n", encoding="utf-8")
    Path("genotype.py").write_text(f"CIFAR10 = {SUB_POLICIES}\n", encoding="utf-8")
    Path("log.txt").write_text(repr(["1", "0", 3, 2, [0] * 60, [3, 10, *[0] * 58]]) + "\n", encoding="utf-8")
    policy = SOLARIZED
    for kind in ("OneOf", "Sequential", "OneOf", "Compose"):
        policy = {"__class_fullname__": kind, "p": 1.0, "transforms": [policy]}
    Path("policy.json").write_text(json.dumps({"__version__": "0.5.2", "transform": policy}), encoding="utf-8")
