"""Tables, arrays and saved datasets on the command line."""

import json
from pathlib import Path

import pytest
from commands import SMALL, refusal_of, run
from own_formats import WRITERS, write_images


def test_a_table_is_searched_and_its_schedule_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    WRITERS["csv"](tmp_path, write_images(tmp_path, {"train": 6, "test": 3}))
    searched = run("search", "images.csv", *SMALL, "--label-column", "label")
    assert searched.exit_code == 0, searched.output
    said = searched.stdout.splitlines()
    assert said[0] == (
        "19 training and 5 validation images of 4 classes: 10, 9, cat, dog; the test images of "
        f"{tmp_path / 'images.csv'} are kept for hba evaluate, unopened"
    )
    assert "columns of images.csv: images from 'path', classes from 'label', splits from 'split'" in said
    config = json.loads((tmp_path / "runs" / "images-1" / "config.json").read_text())
    assert (config["data"], config["label_column"]) == (str(tmp_path / "images.csv"), "label")
    evaluated = run("evaluate", "runs/images-1", "--seeds", "1", "--jobs", "1")
    assert evaluated.exit_code == 0, evaluated.output
    assert evaluated.stdout.startswith("24 training and 12 test images of 4 classes: 10, 9, cat, dog\n")


@pytest.mark.parametrize("command", [["search"], ["evaluate", "digits"]], ids="-".join)
@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.csv", b"path,kind\n", [], "{}/a.csv has no rows; columns: 'path', 'kind'"),
        ("a.csv", b"path,kind\na,b\n", [], "{}/a.csv has no column called label, class or target: name the one of the"),
        (
            "a.csv",
            b"path,label\na,b\nc,d",
            [],
            "2 of the 2 images of {}/a.csv cannot be found, row 2 first: '{}/a' (no",
        ),
        ("a.parquet", b"path,label\n", [], "cannot read the table {}/a.parquet ("),
        ("a.npz", b"", [], "cannot read the arrays of {}/a.npz ("),
        (
            "a.npz",
            b"",
            ["--label-column", "a"],
            "--label-column has no effect on {}/a.npz, which has no columns to choose",
        ),
        (
            "a.json",
            b"",
            [],
            "{}/a.json is a file; give a folder with one sub-folder of images for each class (unpack an",
        ),
        ("images", b"", ["--split-column", "a"], "--split-column has no effect on {}/images, which has no columns"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(
    name: str,
    content: bytes,
    options: list[str],
    message: str,
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(content)
    assert refusal_of(*command, name, *SMALL, *options).startswith(message.replace("{}", str(tmp_path)))


def test_a_table_that_is_not_there_is_called_neither_folder_nor_dataset(tmp_path: Path) -> None:
    assert refusal_of("search", str(tmp_path / "a.csv")).startswith("no such folder or dataset: ")
