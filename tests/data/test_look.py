"""What a look at a data set finds: planted copies, classes, splits and sizes, in every
format.
"""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from opened_images import record_images
from own_formats import CLASSES, WRITERS, write_images
from PIL import Image

from hba.data import (
    EvaluationData,
    LabelledImages,
    SearchData,
    load_search_data,
    prepare,
)
from hba.data.config import DataConfig
from hba.data.look import Look, look

SPLIT = {"train": 5, "val": 2, "test": 3}


def look_at(data: Path | str, **settings: Any) -> Look:
    return look(DataConfig.make({"data": str(data), "image_size": 8, **settings}))


def to_labelled_images(images: np.ndarray, labels: np.ndarray) -> LabelledImages:
    return LabelledImages(torch.from_numpy(images), torch.from_numpy(labels))


def copied_names(summary: Look) -> set[tuple[str, str, str]]:
    return {
        (Path(first).name, Path(other).name, why)
        for first, other, why in summary.copies
    }


@pytest.mark.parametrize("data_format", ["folder", "prepared", *WRITERS])
def test_each_format_has_the_same_look(data_format: str, tmp_path: Path) -> None:
    """12x10 pixels; prepared ones have 8x8. A test split of arrays is not compared."""
    shown = write_images(tmp_path, SPLIT)
    shutil.copy(tmp_path / shown[0].path, tmp_path / shown[5].path)
    shutil.copy(tmp_path / shown[1].path, tmp_path / shown[-12].path)
    if data_format == "folder":
        data = tmp_path
    elif data_format == "prepared":
        data = prepare(tmp_path, tmp_path.with_name("prepared"), image_size=8).folder
    else:
        data = WRITERS[data_format](tmp_path, shown)
    summary = look_at(data)
    assert summary.class_names == CLASSES
    assert summary.counts == (7, 7, 7, 7)
    assert summary.task.noun == "classes"
    assert (summary.n_train, summary.n_val, summary.n_test, summary.has_own_test) == (
        28,
        8,
        12,
        True,
    )
    assert (summary.side, summary.is_grey) == (
        8 if data_format == "prepared" else 10,
        False,
    )
    whys = [why for *_, why in summary.copies]
    assert whys == (
        ["two classes"] if data_format == "npz" else ["two classes", "two splits"]
    )


def test_planted_copies_are_found_and_nothing_else(tmp_path: Path) -> None:
    """Files of equal size with other content, and equal broken files, are no copies;
    those in one class and split no trouble. The test split is held back.
    """
    random = np.random.default_rng(0)
    for number in range(60):
        path = tmp_path / ("cat", "dog")[number % 2] / f"{number}.bmp"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(random.integers(0, 256, (8, 8), dtype=np.uint8)).save(path)
    whole = look_at(tmp_path)
    assert (whole.n_train, whole.n_test, whole.has_own_test, whole.n_copies) == (
        48,
        12,
        False,
        0,
    )
    assert (whole.is_grey, whole.side, whole.counts) == (True, 8, (24, 24))
    assert "12 of the images are held back" in " ".join(whole.sentences)
    for name in ("cat", "dog"):
        (tmp_path / name / "empty.bmp").touch()
        (tmp_path / name / "cut.bmp").write_bytes(
            (tmp_path / "cat" / "0.bmp").read_bytes()[:60]
        )
    for number in range(0, 50, 2):
        shutil.copy(
            tmp_path / "cat" / f"{number}.bmp", tmp_path / "dog" / f"copy-{number}.bmp"
        )
    summary = look_at(tmp_path)
    assert (len(summary.copies), summary.n_copies) == (20, 25)
    expected = {
        (f"{number}.bmp", f"copy-{number}.bmp", "two classes")
        for number in range(0, 50, 2)
    }
    assert {(*sorted(names), why) for *names, why in copied_names(summary)} < expected
    assert "25 pairs of copies" in summary.sentences[-1]
    assert summary.sentences[-1].endswith("and 22 more")


def test_uneven_classes_are_said(tmp_path: Path) -> None:
    for name, count in (("cat", 5), ("dog", 30)):
        (tmp_path / name).mkdir()
        for number in range(count):
            Image.new("RGB", (4 + number, 40), (number, 0, 9)).save(
                tmp_path / name / f"{number}.png"
            )
    summary = look_at(tmp_path)
    assert summary.counts == (4, 24)
    assert any("4 of cat, but 24 of dog" in sentence for sentence in summary.sentences)


def test_no_test_image_in_a_file_is_opened_unless_it_may_be_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_images(tmp_path, SPLIT)
    opened = record_images(monkeypatch)
    look_at(tmp_path)
    assert {path.relative_to(tmp_path).parts[0] for path in opened} == {"train"}


def test_images_in_memory_have_a_look() -> None:
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (12, 9, 16, 1), dtype=np.uint8)
    images[11] = images[0]
    first = to_labelled_images(images[:8], np.arange(8) % 2)
    last = to_labelled_images(images[8:], np.arange(4) % 2)
    summary = look(DataConfig(), data=EvaluationData("noise", ("a", "b"), first, last))
    assert (
        summary.name,
        summary.n_train,
        summary.n_test,
        summary.side,
        summary.is_grey,
    ) == (
        "noise",
        8,
        4,
        9,
        True,
    )
    assert (summary.n_copies, summary.copies[0][2], summary.has_own_test) == (
        1,
        "two classes",
        True,
    )
    summary = look(DataConfig(), data=SearchData("noise", ("a", "b"), first, last))
    assert (summary.n_train, summary.n_val, summary.n_test, summary.counts) == (
        12,
        4,
        None,
        (6, 6),
    )
    pairs = [
        (image, label) for image, label in zip(first.images, [0, 1] * 4, strict=True)
    ]
    for data, n_test in ((pairs, None), ((pairs, pairs[:3]), 3)):
        summary = look(DataConfig(image_size=8), data=data)
        assert (summary.n_train, summary.n_test, summary.has_own_test) == (
            8,
            n_test,
            n_test is not None,
        )
    several = to_labelled_images(
        images, np.eye(3, dtype=int)[np.arange(12) % 3] | [0, 0, 1]
    )
    summary = look(
        DataConfig(), data=SearchData("noise", ("a", "b", "c"), several, several)
    )
    assert summary.task.noun == "labels"
    assert summary.counts == (8, 8, 24)


def test_data_sets_by_name_have_a_look() -> None:
    summary = look_at("digits")
    assert (
        summary.n_train,
        summary.n_test,
        summary.has_own_test,
        summary.side,
        summary.is_grey,
    ) == (700, 1097, False, 8, True)
    assert load_search_data(DataConfig()).test_images == 1097
