"""What a schedule's file tells of the images of its search: known again wherever they
lie, and no others.
"""

import json
import shutil
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
from PIL import Image

from hba.data.config import DataConfig
from hba.data.images import EvaluationData, SearchData
from hba.data.leakage import SeenCount, SeenImages, all_hashes
from hba.data.load import load_evaluation_data, load_search_data
from hba.utils.files import open_regular

CLASSES = ("cat", "dog")


def make_folder(folder: Path, n_images: int = 20, seed: int = 0) -> Path:
    """n_images noisy images of each class, all of one size in bytes, as uncompressed
    files are.
    """
    random = np.random.default_rng(seed)
    for name in CLASSES:
        (folder / name).mkdir(parents=True)
        for number in range(n_images):
            levels = random.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(levels).save(folder / name / f"{number:03}.bmp")
    return folder


def config_of(folder: Path, **settings: Any) -> DataConfig:
    return DataConfig(data=str(folder), image_size=8, **settings)


def listing_of(data: SearchData | EvaluationData) -> tuple[Any, ...]:
    assert data.listing is not None
    return data.listing


def seen_in(folder: Path, **settings: Any) -> SeenImages:
    """As it comes back from a schedule's file."""
    hashes = all_hashes(listing_of(load_search_data(config_of(folder, **settings))))
    seen = SeenImages.from_json(
        json.loads(json.dumps(SeenImages.of("files", hashes).to_json()))
    )
    assert seen is not None
    return seen


def count_in(seen: SeenImages, folder: Path, **settings: Any) -> SeenCount:
    return seen.overlap(
        all_hashes(listing_of(load_evaluation_data(config_of(folder, **settings))))
    )


def split_by_hand(folder: Path, seed: int) -> tuple[set[Any], set[Any]]:
    """The files that a search has opened, and those that an evaluation tests on."""
    parts = (
        load_search_data(config_of(folder)),
        load_evaluation_data(config_of(folder, split_seed=seed)),
    )
    seen, tested = (
        {image.source for image in all_hashes(listing_of(data))} for data in parts
    )
    return seen, tested


def test_another_split_s_test_images_are_counted_one_by_one(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "images")
    seen, tested = split_by_hand(folder, seed=1)
    assert count_in(seen_in(folder), folder, split_seed=1) == SeenCount(
        len(seen & tested), 8, is_estimate=False
    )
    assert 0 < len(seen & tested) < 8


def test_images_are_known_again_in_another_place_and_another_layout(
    tmp_path: Path,
) -> None:
    folder = make_folder(tmp_path / "images")
    seen = seen_in(folder, train_size=10, val_size=6)
    chosen, _ = split_by_hand(folder, seed=0)
    assert len(chosen) == 32
    shutil.copytree(folder, tmp_path / "moved" / "train")
    (tmp_path / "moved" / "test").mkdir()
    shutil.copytree(folder, tmp_path / "moved" / "test", dirs_exist_ok=True)
    assert count_in(seen, tmp_path / "moved") == SeenCount(16, 40, is_estimate=False)


def test_files_of_one_name_and_size_but_other_content_are_others(
    tmp_path: Path,
) -> None:
    make_folder(tmp_path / "images" / "train", seed=0)
    make_folder(tmp_path / "images" / "test", seed=1)
    sizes = {path.stat().st_size for path in (tmp_path / "images").rglob("*.bmp")}
    assert len(sizes) == 1
    assert count_in(seen_in(tmp_path / "images"), tmp_path / "images") == SeenCount(
        0, 40, is_estimate=False
    )


def test_no_test_file_is_opened_unless_a_seen_one_has_its_name_and_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_folder(tmp_path / "images")
    seen = seen_in(folder)
    opened: list[Path] = []
    read = open_regular

    def record(path: Path) -> BinaryIO:
        opened.append(path)
        return read(path)

    monkeypatch.setattr("hba.data.leakage.open_regular", record)
    count_in(seen, folder)
    assert opened == []
    was_seen, tested = split_by_hand(folder, seed=1)
    count_in(seen, folder, split_seed=1)
    assert set(opened) == was_seen & tested


def test_of_many_images_a_sample_is_kept_and_the_count_is_an_estimate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hba.data.leakage.MOST_KEPT", 100)
    folder = make_folder(tmp_path / "images", n_images=300)
    seen = seen_in(folder, split_seed=0)
    assert (len(seen.hashes), seen.n_images) == (100, 480)
    was_seen, tested = split_by_hand(folder, seed=1)
    count = count_in(seen, folder, split_seed=1)
    assert (count.n_tested, count.is_estimate) == (120, True)
    # About 25 of 120 are compared; 15 points is more than three standard errors of a
    # share of 0.8.
    assert count.n_seen == pytest.approx(len(was_seen & tested), abs=0.25 * 120)
    assert count_in(seen, folder).n_seen == 0


def test_records_of_earlier_versions_are_read_and_anything_else_is_none() -> None:
    old = SeenImages.from_json(
        {"by": "files", "images": 1, "of": 2, "hashes": "AQAAAAIAAAA="}
    )
    assert old is not None
    assert old.hashes.tolist() == [[1, 2]]
    for content in (
        None,
        {},
        {"by": "files", "images": 2, "of": 2, "hashes": "?"},
        "text",
    ):
        assert SeenImages.from_json(content) is None
