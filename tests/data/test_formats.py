"""Tables, arrays and saved datasets are the same data as the class folder with the same
images.
"""

import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
from in_memory import config_of, in_memory
from opened_images import record_images
from own_formats import CLASSES, WRITERS, write_images

from hba.data import load_evaluation_data, load_search_data
from hba.errors import DataError, SettingsError

SPLIT = {"train": 5, "val": 2, "test": 3}
UNSPLIT = {"": 10}


def describe(data: Path, **settings: Any) -> dict[str, Any]:
    """All that a search and an evaluation get of the data."""
    config = config_of(data, **settings)
    search = load_search_data(config)
    evaluation = load_evaluation_data(config)
    parts = (search.train, search.val, evaluation.train, in_memory(evaluation.test))
    return {
        "classes": (search.class_names, evaluation.class_names),
        "images": [split.fingerprint() for split in parts],
        "counts": (*map(len, parts), evaluation.n_test, search.test_images),
    }


@pytest.mark.parametrize("data_format", WRITERS)
def test_each_format_is_the_folder_with_the_same_images(
    data_format: str, tmp_path: Path
) -> None:
    """12x10 pixels are resized to 8, so that how this is done counts too."""
    (tmp_path / "classes.txt").write_text("dog # comment\n9\n")
    for name, parts in (("split", SPLIT), ("unsplit", UNSPLIT)):
        folder = tmp_path / name / "images"
        shown = [
            image._replace(path=f"images/{image.path}")
            for image in write_images(folder, parts)
        ]
        data = WRITERS[data_format](tmp_path / name, shown)
        expected = describe(folder)
        assert expected["classes"] == (CLASSES, CLASSES)
        assert describe(data) == expected
        for settings in (
            {"train_size": 8, "val_size": 4, "split_seed": 3},
            {"classes": str(tmp_path / "classes.txt")},
        ):
            assert describe(data, **settings) == describe(folder, **settings)


@pytest.mark.parametrize("data_format", WRITERS)
def test_a_search_reads_nothing_of_a_test_split(
    data_format: str, tmp_path: Path
) -> None:
    """It works where nothing of it can be read, and an evaluation then does not."""
    shown = write_images(tmp_path, SPLIT)
    data = WRITERS[data_format](tmp_path, shown)
    expected = load_search_data(config_of(data))
    if data_format == "npz":
        with zipfile.ZipFile(data) as whole:
            content = {name: whole.read(name) for name in whole.namelist()}
        with zipfile.ZipFile(data, "w") as broken:
            for name, file_content in content.items():
                broken.writestr(
                    name, b"nothing" if name.startswith("test_images") else file_content
                )
    else:
        shutil.rmtree(data / "test" if data_format == "saved" else tmp_path / "test")
    search = load_search_data(config_of(data))
    assert search.train.fingerprint() == expected.train.fingerprint()
    assert search.test_images == 0
    with pytest.raises(DataError):
        load_evaluation_data(config_of(data)).test.opened()


def test_a_search_opens_no_file_that_is_drawn_for_the_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = write_images(tmp_path / "images", UNSPLIT)
    table = WRITERS["csv"](
        tmp_path, [image._replace(path=f"images/{image.path}") for image in shown]
    )
    opened = record_images(monkeypatch)
    for data in (table, tmp_path / "images"):
        opened.clear()
        search = load_search_data(config_of(data))
        searched_files = set(opened)
        assert len(searched_files) == len(search.train) + len(search.val) == 32
        opened.clear()
        in_memory(load_evaluation_data(config_of(data)).test)
        assert len(set(opened) - searched_files) == 8 == search.test_images


def test_broken_and_missing_files_of_a_table_are_named_or_left_out(
    tmp_path: Path,
) -> None:
    shown = write_images(tmp_path, SPLIT)
    data = WRITERS["csv"](tmp_path, shown)
    broken, gone = (tmp_path / shown[number].path for number in (0, 1))
    broken.write_bytes(b"no image")
    with pytest.raises(DataError, match=f"{broken} .*--skip-broken"):
        load_search_data(config_of(data, skip_broken=False))
    gone.unlink()
    with pytest.raises(DataError, match=f"{gone}"):
        load_search_data(config_of(data, skip_broken=False))
    for skip_broken in (None, True):
        left_out = load_search_data(config_of(data, skip_broken=skip_broken)).left_out
        assert {Path(item.path) for item in left_out} == {broken, gone}
    for image in (shown[0], *shown[2:5]):
        (tmp_path / image.path).unlink()
    with pytest.raises(
        DataError, match=r"5 of the 20 images .* leaves none of the class '10'"
    ):
        load_search_data(config_of(data, skip_broken=True))
    for image in shown[5:8]:
        (tmp_path / image.path).unlink()
    with pytest.raises(
        DataError,
        match=r"8 of the 20 images .*png, .*png, .*png and 5 more; .*--skip-broken",
    ):
        load_search_data(config_of(data))


def test_settings_of_other_formats_are_refused(tmp_path: Path) -> None:
    data = WRITERS["npz"](tmp_path, write_images(tmp_path, SPLIT))
    for setting in (
        {"label_column": "label"},
        {"label_separator": ";"},
        {"download": True},
    ):
        with pytest.raises(SettingsError, match=next(iter(setting))):
            load_search_data(config_of(data, **setting))
    with pytest.raises(DataError, match="did you mean digits"):
        load_search_data(config_of(Path("digit")))
    for place in (data, Path("digits")):
        with pytest.raises(DataError, match="stream"):
            load_search_data(config_of(place, stream=True))
