"""Folders that the library datasets has saved: their columns, labels and splits, and what is refused."""

import json
import sys
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from in_memory import in_memory
from PIL import Image

from hba.data import load_evaluation_data, load_search_data
from hba.data.columns import BY_NAME, Columns
from hba.data.config import DataConfig
from hba.data.formats import format_of
from hba.data.saved import SavedPool, saved_source
from hba.errors import DataError, HbaError, SettingsError

datasets.disable_progress_bars()
N = 12
NAMES = ["zebra", "ant"]


def pictures(count: int = N, mode: str = "RGB") -> list[Image.Image]:
    random = np.random.default_rng(0)
    return [Image.fromarray(random.integers(0, 256, (8, 8, 3), dtype=np.uint8)).convert(mode) for _ in range(count)]


def write(folder: Path, labels: Any = None, feature: Any = None, images: Any = None, **columns: Any) -> Path:
    """A dataset of N images, by default with alternating labels of a ClassLabel."""
    features = {
        "image": datasets.Image(),
        "label": feature or datasets.ClassLabel(names=NAMES),
        **{name: datasets.Value("string") for name in columns},
    }
    found = {"image": images or pictures(), "label": [0, 1] * (N // 2) if labels is None else labels, **columns}
    datasets.Dataset.from_dict(found, features=datasets.Features(features)).save_to_disk(str(folder))
    return folder


def refusal(folder: Path, columns: Columns = BY_NAME) -> str:
    with pytest.raises(HbaError) as raised:
        saved_source(folder, columns)
    message = str(raised.value)
    assert len(message.splitlines()) == 1
    return message.replace(str(folder.parent) + "/", "")


def test_a_class_label_keeps_its_order_and_other_labels_are_sorted_as_text(tmp_path: Path) -> None:
    own = saved_source(write(tmp_path / "own"))
    assert own.class_names == ("zebra", "ant")
    assert own.facts == ("columns of own: images from 'image', classes from 'label'",)
    text = saved_source(write(tmp_path / "text", NAMES * (N // 2), datasets.Value("string")))
    assert text.class_names == ("ant", "zebra")
    numbers = saved_source(write(tmp_path / "numbers", [10, 9] * (N // 2), datasets.Value("int64")))
    assert numbers.class_names == ("10", "9")
    assert numbers.train.labels.tolist() == [0] * (N // 2) + [1] * (N // 2)
    assert isinstance(numbers.train, SavedPool)
    assert numbers.train.numbers.tolist() == [*range(0, N, 2), *range(1, N, 2)]


def test_pixels_are_those_of_the_images_whatever_they_were_formatted_as(tmp_path: Path) -> None:
    images = pictures()
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=NAMES)})
    dataset = datasets.Dataset.from_dict({"image": images, "label": [0, 1] * (N // 2)}, features=features)
    # A selection is saved with its rows, and a format with the dataset.
    dataset.select(range(N - 1, -1, -1)).with_format("numpy").save_to_disk(str(tmp_path / "saved"))
    source = saved_source(tmp_path / "saved")
    read = source.train.read(np.arange(N), 8)
    expected = [*reversed(images[1::2]), *reversed(images[::2])]
    order = read.labels.argsort(stable=True)
    assert source.class_names == ("zebra", "ant")
    shown = [image.permute(1, 2, 0).numpy() for image in read.images[order]]
    zebras, ants = expected[N // 2 :], expected[: N // 2]
    for one, image in zip(shown, [*zebras, *ants], strict=True):
        assert np.array_equal(one, np.asarray(image))


def test_16_bit_images_get_one_scale(tmp_path: Path) -> None:
    levels = np.random.default_rng(0).integers(0, 1024, (N, 8, 8), dtype=np.uint16)
    levels[:, 0, 0] = 1023
    write(tmp_path / "saved", images=[Image.fromarray(one) for one in levels])
    data = load_evaluation_data(DataConfig(data=str(tmp_path / "saved"), image_size=8))
    assert data.levels == (0, 1023)
    assert in_memory(data.train).images.amax((1, 2, 3)).tolist() == [255] * len(data.train)


def test_columns_can_be_chosen(tmp_path: Path) -> None:
    folder = write(tmp_path / "saved", kind=["a", "b", "c"] * (N // 3))
    assert saved_source(folder, Columns(label="kind")).class_names == ("a", "b", "c")
    assert refusal(folder, Columns(label="kin")) == (
        "saved has no column 'kin'; did you mean kind?; columns: 'label', 'kind'"
    )
    assert refusal(folder, Columns(path="label")) == "saved has no column 'label'; columns: 'image'"
    assert refusal(folder, Columns(split="kind")) == (
        "split_column has no effect on saved, which has splits where they were saved; omit it"
    )


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ({"labels": [None, 1] * 6}, "number 0 of saved has no label: fill it, or remove the row"),
        ({"labels": [0, -1] * 6}, "number 1 of saved has no label: fill it, or remove the row"),
        ({"labels": [[0]] * N, "feature": [datasets.ClassLabel(names=NAMES)]}, "number 0 of saved has as label 1 valu"),
        ({"labels": [0.5] * N, "feature": datasets.Value("float32")}, "number 0 of saved has as label 0.5, no whole n"),
        ({"labels": ["a"] * N, "feature": datasets.Value("string")}, "saved has one class only, 'a': add images of an"),
        ({"feature": datasets.ClassLabel(names=["only", "two"]), "labels": [0, None] * 6}, "number 1 of saved has no "),
    ],
)
def test_labels_that_are_no_classes_are_refused(made: dict[str, Any], message: str, tmp_path: Path) -> None:
    assert refusal(write(tmp_path / "saved", **made)).startswith(message)


def test_a_dataset_without_images_labels_or_rows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets.Dataset.from_dict({"text": ["a"], "label": [0]}).save_to_disk(str(tmp_path / "text"))
    assert refusal(tmp_path / "text") == "text has no column of images, of the feature Image; columns: 'text', 'label'"
    features = datasets.Features({"image": datasets.Image(), "kind": datasets.Value("string")})
    one = datasets.Dataset.from_dict({"image": pictures(), "kind": ["a"] * N}, features=features)
    one.save_to_disk(str(tmp_path / "other"))
    assert refusal(tmp_path / "other").startswith("other has no column called label, class or target: name the one of")
    # Not every version can save an empty one.
    monkeypatch.setattr(datasets, "load_from_disk", lambda _: one.select(range(0)))
    assert refusal(tmp_path / "other") == "the saved dataset other has no rows"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["train", "unsupervised"], "both has the split 'unsupervised', but splits must be called train, val, test"),
        (["validation", "test"], "both must have one split for training and at most one each of val and test, got ['v"),
        (["train", "training"], "both must have one split for training and at most one each of val and test, got ['tr"),
    ],
)
def test_splits_that_are_not_understood_are_refused(names: list[str], message: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "one")
    one = datasets.load_from_disk(str(folder))
    datasets.DatasetDict({name: one for name in names}).save_to_disk(str(tmp_path / "both"))
    assert refusal(tmp_path / "both").startswith(message)


def test_broken_files_of_a_saved_dataset_are_refused_in_one_line(tmp_path: Path) -> None:
    folder = write(tmp_path / "saved")
    assert len(list(folder.iterdir())) == 3
    for file in sorted(folder.iterdir()):
        content = file.read_bytes()
        for broken in (b"", b"[]", b"3", content[: len(content) // 2]):
            file.write_bytes(broken)
            assert format_of(folder) == "saved"
            message = refusal(folder)
            assert message.startswith(("cannot read the saved dataset saved (", "saved has no column", "the saved dat"))
        file.write_bytes(content)
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": 3}))
    assert refusal(folder).startswith("cannot read saved/dataset_dict.json, which must name the splits")


def test_broken_images_are_named_or_left_out(tmp_path: Path) -> None:
    images: list[Any] = [None, {"bytes": b"no image", "path": None}, *pictures(N - 2)]
    folder = write(tmp_path / "saved", images=images)
    with pytest.raises(DataError, match=r"cannot read the image number [01] of .*saved \(.*\); mend or remove it, or"):
        load_search_data(DataConfig(data=str(folder), image_size=8, split_seed=1))
    data = load_search_data(DataConfig(data=str(folder), image_size=8, skip_broken=True))
    evaluation = load_evaluation_data(DataConfig(data=str(folder), image_size=8, skip_broken=True))
    assert len(data.train) + len(data.val) + len(evaluation.test) == N - 2
    reasons = {item.reason for item in (*data.left_out, *evaluation.left_out)}
    assert "the row holds no image" in reasons
    assert len(reasons) == 2


def test_without_the_library_the_message_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "saved")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(SettingsError) as raised:
        saved_source(folder)
    assert str(raised.value) == f"the saved dataset {folder} needs datasets: pip install 'hba-augment[datasets]'"
