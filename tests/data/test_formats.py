"""What a path of data is taken for, by names alone."""

from pathlib import Path

import pytest

from hba.data.formats import format_of, has_columns, stem_of


@pytest.mark.parametrize(
    ("name", "expected", "stem"),
    [
        ("labels.csv", "table", "labels"),
        ("LABELS.TSV", "table", "LABELS"),
        ("a.b.parquet", "table", "a.b"),
        ("a.pq", "table", "a"),
        ("arrays.npz", "npz", "arrays"),
        ("animals", "folder", "animals"),
        ("animals.v2", "folder", "animals.v2"),
        ("images.zip", "folder", "images.zip"),
    ],
)
def test_a_file_is_known_by_its_ending(name: str, expected: str, stem: str, tmp_path: Path) -> None:
    for is_there in (False, True):
        if is_there:
            (tmp_path / name).touch()
        assert format_of(tmp_path / name) == expected
        assert stem_of(tmp_path / name) == stem
    assert has_columns(tmp_path / name) == (expected == "table")


def test_a_folder_is_one_of_classes_unless_datasets_has_saved_it(tmp_path: Path) -> None:
    folder = tmp_path / "images.csv"
    folder.mkdir()
    assert (format_of(folder), stem_of(folder), has_columns(folder)) == ("folder", "images.csv", False)
    (folder / "state.json").touch()
    assert format_of(folder) == "folder"
    (folder / "dataset_info.json").touch()
    assert (format_of(folder), stem_of(folder), has_columns(folder)) == ("saved", "images.csv", True)
    (folder / "state.json").unlink()
    (folder / "dataset_dict.json").touch()
    assert format_of(folder) == "saved"
