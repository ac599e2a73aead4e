"""Splits under all their names, and folders that could be read in two ways."""

from pathlib import Path

import pytest
from PIL import Image

from hba.data import load_search_data
from hba.data.config import DataConfig
from hba.data.folder import FilePool, folder_source
from hba.data.listing import files_in
from hba.data.sources import find_source
from hba.errors import DataError


def folder_with(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4)).save(folder / name)
    return folder


def two_classes(*parts: str) -> list[str]:
    return [f"{part}/{name}/{part}.png" for part in parts for name in ("cat", "dog")]


def refusal(folder: Path) -> str:
    with pytest.raises(DataError) as raised:
        find_source(DataConfig(data=str(folder)))
    message = str(raised.value)
    assert len(message.splitlines()) == 1
    return message.replace(str(folder), "DIR")


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("train", "test"), ("Train", "Test"), ("TRAIN", "TEST"), ("Training", "Testing"), ("training", "test"),
        ("training_set", "test_set"), ("training-set", "testing-set"), ("TrainingSet", "TestSet"),
        ("trainset", "testset"), ("train_data", "test_data"), ("Train Images", "Test Images"),
    ],
)  # fmt: skip
def test_training_and_test_folders_are_read_as_splits_under_all_their_names(
    tmp_path: Path, train: str, test: str
) -> None:
    source = folder_source(folder_with(tmp_path, *two_classes(train, test)))
    assert source.class_names == ("cat", "dog")
    assert source.val is None
    assert source.test is not None
    pools = (source.train, source.test())
    assert [[path.name for path in pool.paths] for pool in pools if isinstance(pool, FilePool)] == [
        [f"{train}.png"] * 2,
        [f"{test}.png"] * 2,
    ]


@pytest.mark.parametrize("others", [["cat/a.png", "dog/b.png"], two_classes("train", "test")])
def test_runs_that_were_begun_among_the_images_are_no_class(tmp_path: Path, others: list[str]) -> None:
    """As `hba search .` begins them, whose reports have pictures too."""
    folder_with(tmp_path, *others, "runs/animals-1/sample_images.png")
    (tmp_path / "runs" / "animals-1" / ".lock").touch()
    (tmp_path / "runs" / "comparison.html").touch()
    (tmp_path / "runs" / "animals-2").mkdir()
    assert folder_source(tmp_path).class_names == ("cat", "dog")
    assert [path.name for path in files_in(tmp_path)[0]] == sorted(Path(one).name for one in others)


@pytest.mark.parametrize("images", [["runs/jog.png"], ["runs/fast/jog.png"]])
def test_a_class_called_runs_is_a_class(tmp_path: Path, images: list[str]) -> None:
    assert folder_source(folder_with(tmp_path, "walks/stroll.png", *images)).class_names == ("runs", "walks")


@pytest.mark.parametrize("val", ["val", "Val", "valid", "validation", "Validation_Set", "dev", "valset"])
def test_validation_folders_are_read_as_such_and_never_as_test_images(tmp_path: Path, val: str) -> None:
    source = folder_source(folder_with(tmp_path, *two_classes("training", val)))
    assert source.class_names == ("cat", "dog")
    assert isinstance(source.val, FilePool)
    assert [path.name for path in source.val.paths] == [f"{val}.png"] * 2
    assert source.test is None


def test_folders_that_are_read_as_splits_under_another_name_are_told(tmp_path: Path) -> None:
    named_otherwise = folder_source(folder_with(tmp_path / "a", *two_classes("Training", "valid", "test")))
    assert named_otherwise.facts == (
        "training images from Training, validation images from valid, test images from test",
    )
    assert folder_source(folder_with(tmp_path / "b", *two_classes("train", "val", "test"))).facts == ()
    assert folder_source(folder_with(tmp_path / "c", "cat/1.png", "dog/2.png")).facts == ()


def test_no_image_of_the_test_folder_enters_a_search(tmp_path: Path) -> None:
    folder_with(tmp_path, *(f"Train/{name}/{index}.png" for name in ("cat", "dog") for index in range(5)))
    folder_with(tmp_path, *two_classes("Test"))
    data = load_search_data(DataConfig(data=str(tmp_path), image_size=8))
    assert data.class_names == ("cat", "dog")
    assert len(data.train) + len(data.val) == 10
    assert data.facts == ("training images from Train, test images from Test",)


def test_two_folders_for_one_split_are_refused(tmp_path: Path) -> None:
    assert refusal(folder_with(tmp_path, *two_classes("train", "Test", "testing"))) == (
        "DIR/Test and testing both mean test: keep one under the name test, and rename or move the other"
    )


@pytest.mark.parametrize(
    ("names", "renamed"),
    [
        (two_classes("seg_train", "seg_test"), "rename seg_test to test, seg_train to train"),
        (two_classes("train2017", "val2017"), "rename train2017 to train, val2017 to val"),
        (two_classes("Testing"), "rename Testing to test"),
        (["train/1.png", "test/1.png"], "splits are called so"),
        (["train/1.png", "test/1.png", "exam/1.png"], "DIR would be read with 'test', 'train' as classes"),
        (["cat/1.png", "dog/1.png", "test/1.png"], "DIR would be read with 'test' as a class"),
        (two_classes("training_set/training_set", "test_set/test_set"), "rename training_set to train"),
        ([*two_classes("train"), "test1/1.png"], "test1 is called like a split: rename it to test"),
        (two_classes("train", "eval"), "eval could be the validation or the test split: call it val"),
        (two_classes("train", "extra"), "extra holds classes, but a split must be called train, val, test"),
        ([*two_classes("train"), "test/1.png"], "test holds images without a class, 1.png first"),
    ],
)
def test_what_is_called_like_a_split_and_cannot_be_one_is_refused_with_what_to_rename(
    tmp_path: Path, names: list[str], renamed: str
) -> None:
    assert renamed in refusal(folder_with(tmp_path, *names))


@pytest.mark.parametrize("names", [("valid", "invalid"), ("bus", "car", "train"), ("Bus", "Car", "Train")])
def test_a_class_that_is_called_like_a_split_is_a_class_where_it_can_be_nothing_else(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    source = folder_source(folder_with(tmp_path, *(f"{name}/1.png" for name in names)))
    assert source.class_names == tuple(sorted(names))
    assert len(source.train.labels) == len(names)


def test_a_class_called_train_that_has_sub_folders_hides_no_other_class(tmp_path: Path) -> None:
    folder_with(tmp_path, "car/1.png", "plane/2.png", "train/steam/3.png", "train/diesel/4.png")
    message = refusal(tmp_path)
    assert "train is read as the training split, but 'car', 'plane' beside it would then not be read" in message
    assert "rename it, such as to train_class" in message


def test_classes_that_all_have_the_same_sub_folders_are_refused(tmp_path: Path) -> None:
    folds = refusal(folder_with(tmp_path / "a", *two_classes("fold1", "fold2")))
    assert folds.startswith("(nearly) all folders in DIR have the same sub-folders ('cat', 'dog')")
    class_first = refusal(
        folder_with(tmp_path / "b", *(f"{name}/{part}/1.png" for name in "xy" for part in ("train", "test")))
    )
    assert class_first.endswith("put the images of DIR/x/test into DIR/test/x, and so on")


def test_one_sub_folder_in_each_class_is_no_split(tmp_path: Path) -> None:
    source = folder_source(folder_with(tmp_path, "train/cat/images/1.png", "train/dog/images/2.png"))
    assert source.class_names == ("cat", "dog")
    flat = folder_source(folder_with(tmp_path / "flat", "cat/images/1.png", "dog/images/2.png", "dog/more/3.png"))
    assert flat.class_names == ("cat", "dog")


def test_images_beside_clear_splits_are_left_out_and_named(tmp_path: Path) -> None:
    folder_with(tmp_path, *two_classes("Training", "Test"), "test-multiple_fruits/3.png", "notes/plan.txt.png")
    source = folder_source(tmp_path)
    assert source.class_names == ("cat", "dog")
    assert [(Path(item.path).name, item.reason) for item in source.left_out] == [
        ("plan.txt.png", "beside the split Training"),
        ("3.png", "beside the split Training"),
    ]


def test_what_systems_put_into_an_archive_is_no_class(tmp_path: Path) -> None:
    folder_with(tmp_path, "cat/1.png", "dog/1.png", "__MACOSX/cat/2.png")
    assert folder_source(tmp_path).class_names == ("cat", "dog")


@pytest.mark.parametrize("made", ["test", "test/cat", "test/cat/a.npy"])
def test_a_test_folder_without_an_image_is_refused_before_a_search_holds_nothing_back(
    made: str, tmp_path: Path
) -> None:
    path = folder_with(tmp_path, *two_classes("train")) / made
    (path.parent if path.suffix else path).mkdir(parents=True)
    if path.suffix:
        path.write_bytes(b"")
    found = ", but 1 file ending in .npy" if path.suffix else ""
    assert refusal(tmp_path) == (
        f"DIR/test holds no images that can be read{found}; use .png, .jpg, .tif or another ending of an image, or "
        "move the folder away"
    )


def test_test_images_beside_empty_folders_of_classes_are_told_to_have_none(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, *two_classes("train"), "test/loose.png")
    (folder / "test" / "cat").mkdir()
    assert refusal(tmp_path) == (
        "DIR/test holds images without a class, loose.png first: sort them into one sub-folder for each class, or move "
        "the folder away"
    )
