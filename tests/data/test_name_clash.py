"""A dataset's name that is also a folder's: neither is taken silently for the other."""

import re
from pathlib import Path
from typing import Any

import pytest
from streamed_folders import SMALL, write_folder

import hba
from hba.data.config import check_clash, resolved_data
from hba.errors import SettingsError

CLASH = re.escape(
    "digits is the name of a dataset, and of a folder of images here: write ./digits for the folder, dataset:digits "
    "for the dataset"
)
ONE_EPOCH: dict[str, Any] = {**SMALL, "epochs": 1}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, in which there is a folder called digits."""
    write_folder(tmp_path / "digits", 12)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def searched(data: Any) -> str:
    schedule = hba.search(data, **ONE_EPOCH).schedule
    assert schedule is not None
    return str(schedule.provenance["dataset"])


def test_a_name_that_could_mean_both_is_refused_with_how_to_write_each(here: Path) -> None:
    with pytest.raises(SettingsError, match=CLASH):
        hba.search("digits", **ONE_EPOCH)
    with pytest.raises(SettingsError, match=CLASH):
        hba.evaluate("digits", "digits", **ONE_EPOCH)
    assert searched("dataset:digits") == "digits"
    result = hba.evaluate("digits", "dataset:digits", **{**ONE_EPOCH, "seeds": 1, "train_size": 16})
    assert (result.config.data, result.train_images) == ("digits", 16)


@pytest.mark.parametrize("path", ["./digits", "digits/", "ABSOLUTE", Path("digits")])
def test_a_folder_written_as_a_path_is_the_folder(here: Path, path: str | Path) -> None:
    assert searched(str(here / "digits") if path == "ABSOLUTE" else path) == str(here / "digits")


def test_what_was_settled_before_is_not_asked_again(here: Path) -> None:
    schedule = hba.search("dataset:digits", out=here / "run", **ONE_EPOCH).schedule
    assert schedule is not None
    assert hba.search(out=here / "run", resume=True).finished
    assert hba.search("dataset:digits", out=here / "run", resume=True).finished
    result = hba.evaluate(schedule, **{**ONE_EPOCH, "seeds": 1, "train_size": 16})
    assert result.config.data == "digits"


def test_a_folder_of_images_does_not_hide_a_shipped_schedule(here: Path) -> None:
    assert hba.load_policy("digits").provenance["dataset"] == "digits"


def test_a_folder_without_images_is_no_clash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits" / "plots").mkdir(parents=True)
    (tmp_path / "digits" / "notes.txt").write_text("")
    check_clash("digits")
    write_folder(tmp_path / "imagenet" / "train", 1)
    with pytest.raises(SettingsError, match=r"\./imagenet for the folder"):
        check_clash("imagenet")
    check_clash("imagenet", data_root=".")


def test_only_a_dataset_can_be_called_one() -> None:
    with pytest.raises(SettingsError, match=r"unknown dataset 'photos'; known: digits, cifar10"):
        resolved_data({"data": "dataset:photos"})
