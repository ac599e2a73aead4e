"""Masks in COCO annotations: polygons, run lengths, crowds, splits, and mistakes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from hba.data import LabelledImages, load_evaluation_data, load_search_data
from hba.data.config import DataConfig
from hba.errors import DataError
from hba.tasks.segmentation import IGNORED

mask_api = pytest.importorskip("pycocotools.mask", reason="needs the extra coco")
SIDE = 16
CATEGORIES = [{"id": 7, "name": "cell"}, {"id": 3, "name": "dust"}]
CELL, DUST = 2, 1


def run_lengths(mask: np.ndarray) -> dict[str, Any]:
    encoded = mask_api.encode(np.asfortranarray(mask.astype(np.uint8)))
    return {"size": encoded["size"], "counts": encoded["counts"].decode()}


def box(left: int, top: int, right: int, bottom: int) -> list[list[int]]:
    return [[left, top, right, top, right, bottom, left, bottom]]


def annotation(number: int, image: int, category: int, what: Any, **more: Any) -> Any:
    return {
        "id": number,
        "image_id": image,
        "category_id": category,
        "segmentation": what,
        "iscrowd": 0,
        "area": 1,
        "bbox": [0, 0, 1, 1],
        **more,
    }


def write(folder: Path, names: list[str], **changes: Any) -> Path:
    """Write images with the same objects: a large cell, a small one of dust on it, and
    a crowd in the corner.
    """
    images = []
    objects = []
    crowd = np.zeros((SIDE, SIDE), dtype=bool)
    crowd[:3, :3] = True
    for number, name in enumerate(names, 1):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (SIDE, SIDE), (number, 0, 0)).save(path)
        images.append({"id": number, "file_name": name, "width": SIDE, "height": SIDE})
        objects += [
            annotation(3 * number, number, 3, box(6, 6, 8, 8)),
            annotation(3 * number + 1, number, 7, box(4, 4, 12, 12)),
            annotation(3 * number + 2, number, 7, run_lengths(crowd), iscrowd=1),
            annotation(1000 + number, number, 7, []),
        ]
    content = {"images": images, "annotations": objects, "categories": CATEGORIES}
    file = folder / "instances.json"
    file.write_text(json.dumps({**content, **changes}))
    return file


def config_of(folder: Path, **settings: Any) -> DataConfig:
    masks = str(folder / "instances.json")
    values = {"data": str(folder), "masks": masks, "image_size": SIDE, **settings}
    return DataConfig.make(values)


def test_objects_of_categories_are_classes(tmp_path: Path) -> None:
    write(tmp_path, [f"{number}.png" for number in range(10)])
    data = load_search_data(config_of(tmp_path))
    assert data.class_names == ("background", "dust", "cell")
    assert isinstance(data.train, LabelledImages)
    expected = torch.zeros(SIDE, SIDE, dtype=torch.uint8)
    expected[4:12, 4:12] = CELL
    expected[6:8, 6:8] = DUST
    expected[:3, :3] = IGNORED
    for mask in data.train.labels:
        assert torch.equal(mask, expected)


def test_first_folders_are_splits(tmp_path: Path) -> None:
    counts = {"train": 6, "val": 3, "test": 2}
    names = [
        f"{split}/{number}.png" for split, n in counts.items() for number in range(n)
    ]
    write(tmp_path, names)
    search = load_search_data(config_of(tmp_path))
    evaluation = load_evaluation_data(config_of(tmp_path))
    found = len(search.train), len(search.val), len(evaluation.test.opened())
    assert found == (6, 3, 2)
    assert search.test_images == 0


WRONG: dict[str, dict[str, Any]] = {
    "categories": {"categories": []},
    "has 16 x 16 pixels": {
        "images": [{"id": 1, "file_name": "0.png", "width": 9, "height": SIDE}]
    },
    "lacks 1 of the 1 images": {
        "images": [{"id": 1, "file_name": "none.png", "width": 16, "height": 16}]
    },
    "segmentation": {"annotations": [annotation(1, 1, 3, None)]},
    "category": {"annotations": [annotation(1, 1, 99, box(1, 1, 3, 3))]},
    "of its image": {
        "annotations": [annotation(1, 1, 3, run_lengths(np.ones((9, 9))))]
    },
    "none of them 'background'": {"categories": [{"id": 3, "name": "background"}]},
    "below": {
        "images": [{"id": 1, "file_name": "../0.png", "width": 16, "height": 16}]
    },
    "one entry for each": {
        "images": [
            {"id": number, "file_name": "0.png", "width": 16, "height": 16}
            for number in (1, 2)
        ]
    },
    "cannot read": {"images": [{"id": 1}]},
}


@pytest.mark.parametrize("named", WRONG)
def test_files_that_cannot_be_used_are_refused(tmp_path: Path, named: str) -> None:
    write(tmp_path, ["0.png", "1.png", "2.png"], **WRONG[named])
    with pytest.raises(DataError) as raised:
        load_search_data(config_of(tmp_path))
    assert named in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1
