"""What data are called in titles and as the folder of a run."""

from pathlib import Path

import pytest

from hba.data.naming import run_name, shown_name


@pytest.mark.parametrize(
    ("data", "shown", "of_run"),
    [
        ("digits", "digits", "digits"),
        ("/data/animals", "animals", "animals"),
        ("/data/animals/train", "animals/train", "animals-train"),
        ("/data/animals/Test_Images", "animals/Test_Images", "animals-Test_Images"),
        ("/data/animals/train.csv", "animals/train.csv", "animals-train"),
        ("/data/animals/val.npz", "animals/val.npz", "animals-val"),
        ("/data/animals/trains", "trains", "trains"),
        ("/data/animals/train2024", "train2024", "train2024"),
        ("/data/animals.csv", "animals.csv", "animals"),
        # A list in Python, and what a file from elsewhere may say.
        ("list", "list", "list"),
        ("train", "train", "train"),
        ("/train", "train", "train"),
    ],
)
def test_the_folder_around_is_named_where_the_name_is_only_a_split(data: str, shown: str, of_run: str) -> None:
    assert (shown_name(data), run_name(data)) == (shown, of_run)


def test_a_folder_keeps_what_looks_like_an_ending(tmp_path: Path) -> None:
    (tmp_path / "animals.csv").mkdir()
    assert run_name(str(tmp_path / "animals.csv")) == "animals.csv"
