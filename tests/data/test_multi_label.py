"""Images of several labels: which cells and arrays say so, how they are split, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from in_memory import in_memory
from PIL import Image

from hba.data import EvaluationData, LabelledImages, SearchData, load_evaluation_data, load_search_data
from hba.data.classes import keep_classes
from hba.data.columns import Columns
from hba.data.config import DataConfig
from hba.data.folder import FilePool
from hba.data.load import notes_on_classes
from hba.data.npz import npz_source
from hba.data.table import table_source
from hba.errors import DataError, HbaError, SettingsError

CELLS = ["cat; dog", "", "dog;dog", "bird;cat;", "dog", ""]
EXPECTED = {0: ["cat", "dog"], 1: [], 2: ["dog"], 3: ["bird", "cat"], 4: ["dog"], 5: []}
SEPARATED = Columns(label_separator=";")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for number in range(60):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / f"{number}.png")
    return tmp_path


def table(place: Path, cells: list[str], name: str = "images.csv", **columns: Any) -> Path:
    rows = {"path": [f"{number}.png" for number in range(len(cells))], "label": cells, **columns}
    frame = pandas.DataFrame(rows)
    if name.endswith(".csv"):
        frame.to_csv(place / name, index=False)
    else:
        frame.to_parquet(place / name)
    return place / name


def config_of(file: Path, **settings: Any) -> DataConfig:
    return DataConfig.make({"data": str(file), "image_size": 8, **settings})


@pytest.mark.parametrize("name", ["images.csv", "images.parquet"])
def test_a_cell_has_the_labels_between_separators_and_an_empty_one_has_none(place: Path, name: str) -> None:
    source = table_source(table(place, CELLS, name), SEPARATED)
    assert source.class_names == ("bird", "cat", "dog")
    assert isinstance(source.train, FilePool)
    assert source.train.labels.dtype == bool
    found = {
        int(path.stem): [one for one, has_it in zip(source.class_names, row, strict=True) if has_it]
        for path, row in zip(source.train.paths, source.train.labels, strict=True)
    }
    assert found == EXPECTED
    assert (
        source.facts[1]
        == "labels an image: 1 on average, 2 images without; splits that are drawn are drawn at random, not by class"
    )


def test_the_order_of_rows_decides_nothing(place: Path) -> None:
    cells = [CELLS[number % 6] for number in range(60)]
    data = load_search_data(config_of(table(place, cells), label_separator=";"))
    turned = place / "turned.csv"
    lines = (place / "images.csv").read_text().splitlines()
    turned.write_text("\n".join([lines[0], *reversed(lines[1:])]) + "\n")
    again = load_search_data(config_of(turned, label_separator=";"))
    assert data.train.fingerprint() == again.train.fingerprint()
    assert torch.equal(in_memory(data.val).images, in_memory(again.val).images)


def test_images_go_with_their_labels_in_memory_and_streamed(place: Path) -> None:
    cells = ["a;b" if number % 3 == 0 else "a" if number % 3 == 1 else "" for number in range(60)]
    file = table(place, cells)
    for stream in (False, True):
        data = load_search_data(config_of(file, label_separator=";", stream=stream, workers=0))
        for part in (data.train, data.val):
            for images, labels in part.once(7):
                numbers = images[:, 0, 0, 0].long() % 3
                assert labels.dtype == torch.bool
                assert torch.equal(labels, torch.stack([numbers < 2, numbers == 0], dim=1))


def test_splits_are_drawn_at_random_as_numpy_permutes(place: Path) -> None:
    cells = [("a;b", "a", "")[number % 3] for number in range(60)]
    file = table(place, cells)
    data = load_evaluation_data(config_of(file, label_separator=";", split_seed=5))
    order = sorted(range(60), key=lambda number: (cells[number].split(";") if cells[number] else [], f"{number}.png"))
    test = sorted(np.random.default_rng(5).permutation(60)[:12])
    assert in_memory(data.test).images[:, 0, 0, 0].tolist() == [order[place] for place in test]
    assert len(data.train) == 48


def test_a_class_without_training_images_is_told(place: Path) -> None:
    cells = ["a;b"] * 59 + ["a;c"]
    seeds = (load_search_data(config_of(table(place, cells), label_separator=";", split_seed=s)) for s in range(20))
    told = [note for data in seeds for note in notes_on_classes(data) if "no training images of c" in note]
    assert told
    assert len(told) < 20


def test_missing_files_are_left_out(place: Path) -> None:
    (place / "2.png").unlink()
    with pytest.raises(DataError, match=r"1 of the 6 images .* cannot be found"):
        table_source(table(place, CELLS), SEPARATED)
    source = table_source(table(place, CELLS), SEPARATED, skip_broken=True)
    assert len(source.train.labels) == 5
    kept = source.train.restricted([1, 2])
    assert [item.path for item in kept.left_out] == [str(place / "2.png")]


def test_a_list_of_classes_keeps_their_labels_and_all_images(place: Path) -> None:
    (place / "kept.txt").write_text("cat\ndog\n")
    kept = keep_classes(table_source(table(place, CELLS), SEPARATED), str(place / "kept.txt"))
    assert kept.class_names == ("cat", "dog")
    assert kept.train.labels.sum(axis=0).tolist() == [2, 3]
    assert len(kept.train.labels) == 6


def test_a_separator_that_no_cell_has_is_refused(place: Path) -> None:
    with pytest.raises(
        DataError,
        match=r"no cell of column 'label' of .* has two labels with the separator '\|' between them, such as 'a;b'",
    ):
        table_source(table(place, ["a;b", "b"]), Columns(label_separator="|"))


def test_a_class_that_training_images_do_not_have_is_refused(place: Path) -> None:
    file = table(place, ["a;b", "b", "", "a;c"], split=["train", "train", "train", "val"])
    with pytest.raises(DataError, match=r"the split val of .* has the class 'c', which the training images do not"):
        table_source(file, SEPARATED)


@pytest.mark.parametrize("separator", ["", ";;", "x", "1"])
def test_a_separator_is_one_character_and_no_letter(separator: str) -> None:
    with pytest.raises(SettingsError, match="label_separator must be one character that is no letter or digit"):
        DataConfig.make({"label_separator": separator})


@pytest.mark.parametrize("data", ["digits", "a.npz"])
def test_a_separator_is_for_tables(data: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=np.zeros((4, 8, 8), np.uint8), labels=np.eye(4))
    data = data if data == "digits" else str(tmp_path / data)
    with pytest.raises(SettingsError, match=r"label_separator has no effect on .*, which is no table; omit it"):
        load_search_data(DataConfig.make({"data": data, "label_separator": ";"}))


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float32])
def test_a_matrix_of_an_npz_file_keeps_its_order(tmp_path: Path, dtype: type) -> None:
    labels: np.ndarray = (np.random.default_rng(0).random((30, 3)) < 0.4).astype(dtype)
    np.savez(
        tmp_path / "a.npz", images=np.arange(30, dtype=np.uint8)[:, None, None].repeat(8, 1).repeat(8, 2), labels=labels
    )
    source = npz_source(tmp_path / "a.npz")
    assert source.class_names == ("0", "1", "2")
    read = source.train.read(np.array([4, 0, 29]), 8)
    assert read.images[:, 0, 0, 0].tolist() == [4, 0, 29]
    assert read.labels.tolist() == labels[[4, 0, 29]].astype(bool).tolist()


def test_one_hot_labels_are_told_from_single_ones(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=np.zeros((4, 8, 8), np.uint8), labels=np.eye(4))
    assert npz_source(tmp_path / "a.npz").facts == (
        "each image has one label: to learn one class of an image, give labels as numbers or names",
    )


def test_splits_of_an_npz_file_have_the_same_classes(tmp_path: Path) -> None:
    images = np.zeros((4, 8, 8), np.uint8)
    np.savez(tmp_path / "a.npz", train_x=images, train_y=np.eye(4), test_x=images, test_y=np.eye(4)[:, :3])
    source = npz_source(tmp_path / "a.npz")
    assert source.test is not None
    with pytest.raises(
        DataError, match=r"test_y of .* must have the shape \(N, 4\), as the labels of train, got \(4, 3\)"
    ):
        source.test()


def test_too_few_images_with_a_label_are_refused(tmp_path: Path) -> None:
    labels: np.ndarray = np.zeros((40, 2), np.uint8)
    labels[0] = 1
    np.savez(tmp_path / "a.npz", images=np.zeros((40, 8, 8), np.uint8), labels=labels)
    with pytest.raises(
        HbaError, match=r"none of the \d+ images drawn for test has a label: choose a larger test split"
    ):
        load_search_data(config_of(tmp_path / "a.npz"))


def images_with(labels: Any) -> LabelledImages:
    return LabelledImages(torch.zeros(len(labels), 3, 8, 8, dtype=torch.uint8), labels)


@pytest.mark.parametrize(
    ("train", "val", "said"),
    [
        (np.eye(3), np.eye(3), "labels must have one column for each of the 2 class names, but those of the training"),
        (np.eye(2), np.zeros((2, 2)), "there must be at least one validation image with a label, but all are without"),
        (np.eye(2), np.array([0, 1]), "labels must be of one kind, but the training and validation images have a numb"),
    ],
)
def test_labels_in_memory_must_fit_the_classes_and_each_other(train: Any, val: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        SearchData("mine", ("a", "b"), images_with(train), images_with(val))


def test_labels_in_memory_become_truth_values() -> None:
    data = EvaluationData("mine", ("a", "b"), images_with([[1, 1], [0, 0]]), images_with(np.eye(2)))
    assert in_memory(data.train).labels.dtype == torch.bool
    assert in_memory(data.train).labels.tolist() == [[True, True], [False, False]]


def test_a_separator_that_no_cell_has_is_refused_where_some_are_empty_too(place: Path) -> None:
    file = table(place, ["cat|odd", "dog", "", "cat", ""])
    with pytest.raises(
        DataError,
        match=r"no cell of column 'label' of .* has two labels with the separator ';' between them, such as 'cat\|odd'",
    ):
        table_source(file, SEPARATED)


def test_a_table_whose_training_rows_have_no_label_is_refused(place: Path) -> None:
    with pytest.raises(DataError, match="must have a label in some rows of the split train, and has none"):
        table_source(table(place, ["", "", "a;b"], split=["train", "train", "val"]), SEPARATED)
