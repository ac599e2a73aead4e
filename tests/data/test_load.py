"""Search and evaluation data: who sees which image, at what size."""

from pathlib import Path

import numpy as np
import pytest
import torch
from in_memory import in_memory
from PIL import Image
from torch import Tensor

import hba.data.folder
from hba.data import load_evaluation_data, load_search_data
from hba.data.config import DataConfig
from hba.data.images import Images
from hba.data.lazy_split import LazySplit
from hba.data.levels import Levels
from hba.errors import DataError

CLASSES = ("ant", "bee", "cow")


def write_part(folder: Path, n_per_class: int) -> set[Path]:
    paths = set()
    for label, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True)
        for index in range(n_per_class):
            path = folder / name / f"{index:03}.png"
            Image.new("RGB", (9, 7), (40 * label, index, 200)).save(path)
            paths.add(path)
    return paths


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Every image file that is opened, in the order of its opening."""
    paths: list[Path] = []
    read_image = hba.data.folder.read_image

    def recording(path: Path, image_size: int, levels: Levels | None) -> Tensor:
        paths.append(path)
        return read_image(path, image_size, levels)

    monkeypatch.setattr(hba.data.folder, "read_image", recording)
    return paths


def config_for(folder: Path, **settings: int) -> DataConfig:
    return DataConfig.make({"data": str(folder), "image_size": 8, **settings})


def indices_of(part: Images | LazySplit) -> list[tuple[int, int]]:
    """(label, number) as the pixels show them."""
    data = in_memory(part)
    shown = data.images[:, :2, 0, 0].tolist()
    assert [red for red, _ in shown] == [40 * label for label in data.labels.tolist()]
    return [(red // 40, green) for red, green in shown]


@pytest.mark.parametrize("split_seed", [0, 1, 2])
def test_without_a_test_folder_a_search_opens_no_file_of_the_test_split(
    tmp_path: Path, opened: list[Path], split_seed: int
) -> None:
    files = write_part(tmp_path, 20)
    search = load_search_data(config_for(tmp_path, split_seed=split_seed))
    of_search = set(opened)
    assert len(opened) == len(of_search) == len(search.train) + len(search.val)
    opened.clear()
    evaluation = load_evaluation_data(config_for(tmp_path, split_seed=split_seed))
    assert len(opened) == len(evaluation.train)
    assert len(evaluation.test) == evaluation.n_test == 12
    of_test = set(opened[len(evaluation.train) :])
    assert len(of_test) == 12
    assert not of_search & of_test
    assert of_search | of_test == files


def test_with_a_test_folder_a_search_opens_no_file_of_it(tmp_path: Path, opened: list[Path]) -> None:
    train, test = write_part(tmp_path / "train", 10), write_part(tmp_path / "test", 4)
    load_search_data(config_for(tmp_path))
    assert set(opened) == train
    opened.clear()
    evaluation = load_evaluation_data(config_for(tmp_path))
    assert set(opened) == train
    opened.clear()
    for _ in range(2):
        assert indices_of(evaluation.test) == [(label, index) for label in range(3) for index in range(4)]
    assert sorted(opened) == sorted(test), "read once and kept"


def test_a_search_does_not_care_about_broken_test_images(tmp_path: Path) -> None:
    write_part(tmp_path / "train", 10)
    for path in write_part(tmp_path / "test", 4):
        path.write_bytes(b"no image")
    assert len(load_search_data(config_for(tmp_path)).train) == 24
    evaluation = load_evaluation_data(config_for(tmp_path))
    assert evaluation.n_test == 12
    with pytest.raises(DataError, match="cannot read the image"):
        evaluation.test.once(5)


@pytest.mark.parametrize("sizes", [{}, {"train_size": 5, "val_size": 9}, {"train_size": 30, "val_size": 18}])
def test_the_test_split_does_not_depend_on_the_sizes(tmp_path: Path, sizes: dict[str, int]) -> None:
    write_part(tmp_path, 20)
    search, evaluation = load_search_data(config_for(tmp_path, **sizes)), load_evaluation_data(config_for(tmp_path))
    seen = {*indices_of(search.train), *indices_of(search.val)}
    assert len(seen) == len(search.train) + len(search.val)
    assert not seen & set(indices_of(evaluation.test))
    assert seen <= set(indices_of(evaluation.train))
    train_size = {name: size for name, size in sizes.items() if name == "train_size"}
    again = load_evaluation_data(config_for(tmp_path, **train_size))
    assert indices_of(again.test) == indices_of(evaluation.test)
    assert len(again.train) == sizes.get("train_size", 48)


def test_a_val_folder_is_taken_as_it_is(tmp_path: Path, opened: list[Path]) -> None:
    train, val = write_part(tmp_path / "train", 10), write_part(tmp_path / "val", 3)
    write_part(tmp_path / "test", 2)
    search = load_search_data(config_for(tmp_path))
    assert indices_of(search.val) == [(label, index) for label in range(3) for index in range(3)]
    assert len(search.train) == len(train)
    assert set(opened) == train | val


def test_a_val_folder_without_a_test_folder_leaves_a_test_split_of_the_training_images(
    tmp_path: Path, opened: list[Path]
) -> None:
    train, val = write_part(tmp_path / "train", 10), write_part(tmp_path / "val", 3)
    load_search_data(config_for(tmp_path))
    of_search = set(opened)
    opened.clear()
    evaluation = load_evaluation_data(config_for(tmp_path))
    in_memory(evaluation.test)
    of_test = set(opened[len(evaluation.train) :])
    assert of_search == (train | val) - of_test
    assert len(of_test) == 6


@pytest.mark.parametrize("size", [8, 11, 64])
def test_images_have_the_size_asked_for(tmp_path: Path, size: int) -> None:
    write_part(tmp_path, 3)
    config = config_for(tmp_path, image_size=size)
    search, evaluation = load_search_data(config), load_evaluation_data(config)
    for data in map(in_memory, (search.train, search.val, evaluation.train, evaluation.test)):
        assert data.images.shape == (len(data), 3, size, size)
        assert data.images.dtype == torch.uint8
        assert data.labels.dtype == torch.int64


def test_images_of_a_folder_are_32_pixels_large_by_default(tmp_path: Path) -> None:
    write_part(tmp_path, 3)
    assert in_memory(load_search_data(DataConfig(data=str(tmp_path))).train).images.shape[1:] == (3, 32, 32)


def test_digits_are_16_pixels_large_unless_another_size_is_asked_for() -> None:
    assert in_memory(load_search_data(DataConfig(train_size=20, val_size=20)).val).images.shape == (20, 3, 16, 16)
    assert in_memory(load_search_data(DataConfig(train_size=20, val_size=20, image_size=9)).val).images.shape == (
        20,
        3,
        9,
        9,
    )


def test_names_of_data_and_classes_come_along(tmp_path: Path) -> None:
    write_part(tmp_path, 3)
    search, evaluation = load_search_data(config_for(tmp_path)), load_evaluation_data(config_for(tmp_path))
    assert search.class_names == evaluation.class_names == CLASSES
    assert search.name == evaluation.name == str(tmp_path)


@pytest.mark.parametrize("load", [load_search_data, load_evaluation_data])
@pytest.mark.parametrize("layout", ["flat", "split"])
def test_progress_counts_all_images_as_one_piece_of_work(tmp_path: Path, layout: str, load: object) -> None:
    progress: list[tuple[int, int]] = []

    def on_read(done: int, total: int) -> None:
        progress.append((done, total))

    n = 30
    write_part(tmp_path if layout == "flat" else tmp_path / "train", n // 3)
    if layout == "split":
        write_part(tmp_path / "test", 2)
    else:
        n -= 6
    assert callable(load)
    load(config_for(tmp_path), on_read)
    assert progress == [(done, n) for done in range(1, n + 1)]


def test_an_empty_class_is_named_with_what_it_needs(tmp_path: Path) -> None:
    write_part(tmp_path, 5)
    (tmp_path / "bug").mkdir()
    with pytest.raises(DataError, match=r"'bug' .*has 0 images, but needs at least 3"):
        load_search_data(config_for(tmp_path))


def test_a_folder_that_is_not_there_is_named_with_the_known_datasets(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no such folder or dataset: .*missing; datasets: digits, cifar10"):
        load_search_data(config_for(tmp_path / "missing"))


def test_skipped_images_are_reported_for_the_part_that_they_were_in(tmp_path: Path) -> None:
    write_part(tmp_path / "train", 10)
    write_part(tmp_path / "val", 3)
    broken = tmp_path / "val" / "bee" / "001.png"
    broken.write_bytes(b"no image")
    config = DataConfig.make({"data": str(tmp_path), "image_size": 8, "skip_broken": True})
    search = load_search_data(config)
    assert (search.train.skipped, search.val.skipped) == ((), (str(broken),))
    assert np.bincount(search.val.labels).tolist() == [3, 2, 3]


def test_the_seed_alone_decides_the_split(tmp_path: Path) -> None:
    write_part(tmp_path, 20)
    first, second = (load_search_data(config_for(tmp_path, split_seed=4)) for _ in range(2))
    other = load_search_data(config_for(tmp_path, split_seed=5))
    assert indices_of(first.val) == indices_of(second.val)
    assert indices_of(first.val) != indices_of(other.val)
