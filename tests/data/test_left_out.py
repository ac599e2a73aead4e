"""Files that a run does not use are named in a file beside its results."""

import csv
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from streamed_folders import SMALL, write_folder

import hba
from hba.data.config import DataConfig
from hba.data.folder import folder_source
from hba.data.load import load_search_data, notes_on_classes
from hba.data.skipped import SkippedFile, save_left_out, without_doubles
from hba.errors import RunError
from hba.policy_evaluation import EvaluationPlan


def folder_with(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4)).save(folder / name)


def listed(folder: Path) -> dict[str, str]:
    """Reasons by file name, as left_out.csv has them."""
    with (folder / "left_out.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {"/".join(Path(row["path"]).parts[-3:]): row["reason"] for row in rows}


def messy_folder(folder: Path) -> Path:
    """Splits with two broken images, one of them for testing, files that are no images, and a class without any."""
    write_folder(folder / "train", 12)
    write_folder(folder / "val", 4)
    write_folder(folder / "test", 4)
    for broken in ("train/cat/000.png", "test/dog/003.png"):
        (folder / broken).write_bytes(b"no image")
    (folder / "train" / "dog" / "notes, old.txt").write_text("")
    (folder / "train" / "dog" / "Thumbs.db").write_text("")
    for path in (folder / "val" / "dog").iterdir():
        path.unlink()
    return folder


@pytest.mark.parametrize("stream", [False, True], ids=["memory", "streamed"])
def test_what_a_search_and_an_evaluation_do_not_use_is_in_left_out_csv(tmp_path: Path, stream: bool) -> None:
    folder = messy_folder(tmp_path / "images")
    settings: dict[str, Any] = {**SMALL, "skip_broken": True, "stream": stream, "workers": 0}
    found = hba.search(folder, out=tmp_path / "run", **settings).schedule
    assert found is not None
    of_search = listed(tmp_path / "run")
    assert of_search.pop("train/cat/000.png").startswith("it is not an image of a format")
    assert of_search == {
        "train/dog/notes, old.txt": ".txt is not the ending of an image",
        "images/val/dog": "no image of this class",
    }
    result = hba.evaluate(found, out=tmp_path / "results", allow_seen=True, **{**settings, "seeds": 1})
    assert set(listed(tmp_path / "results")) == {"train/cat/000.png", "test/dog/003.png", "train/dog/notes, old.txt"}
    assert result.skipped_images == 2


def test_a_run_that_uses_all_files_has_no_such_file(tmp_path: Path) -> None:
    hba.search(write_folder(tmp_path / "images", 12), out=tmp_path / "run", **SMALL)
    assert (tmp_path / "run" / "policy.json").exists()
    assert not (tmp_path / "run" / "left_out.csv").exists()


def test_a_list_is_written_over_an_older_one_and_an_empty_one_removes_it(tmp_path: Path) -> None:
    save_left_out(tmp_path, [SkippedFile("a/1.txt", "old")])
    save_left_out(tmp_path, [SkippedFile('a/"2", \u00e4.txt', "new"), SkippedFile("b/\udcff.txt", "bytes")])
    assert (tmp_path / "left_out.csv").read_text(encoding="utf-8") == (
        'path,reason\n"a/""2"", \u00e4.txt",new\nb/\\udcff.txt,bytes\n'
    )
    save_left_out(tmp_path, [])
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "left_out.csv").mkdir()
    with pytest.raises(RunError, match="left_out"):
        save_left_out(tmp_path, [])


def test_of_two_parts_with_the_same_file_the_first_counts() -> None:
    first, second, other = SkippedFile("a", "one"), SkippedFile("a", "two"), SkippedFile("b", "one")
    assert without_doubles([first], [second, other]) == (first, other)


@pytest.mark.parametrize("kind", ["search", "evaluation"])
def test_which_folders_are_which_splits_is_told(tmp_path: Path, kind: str) -> None:
    write_folder(tmp_path / "Training", 12)
    write_folder(tmp_path / "Testing", 4)
    told: list[str] = []

    if kind == "search":

        class Searching(hba.SearchCallback):
            def planned(self, plan: hba.SearchPlan) -> None:
                told.extend(plan.notes)

        hba.search(tmp_path, callback=Searching(), **SMALL)
    else:

        class Evaluating(hba.EvaluationCallback):
            def planned(self, plan: EvaluationPlan) -> None:
                told.extend(plan.notes)

        hba.evaluate("digits", tmp_path, callback=Evaluating(), **{**SMALL, "seeds": 1})
    assert told[0] == "training images from Training, test images from Testing"


def test_a_class_without_validation_images_is_told(tmp_path: Path) -> None:
    write_folder(tmp_path / "train", 12)
    write_folder(tmp_path / "val", 4)
    for path in (tmp_path / "val" / "dog").iterdir():
        path.unlink()
    data = load_search_data(DataConfig.make({"data": str(tmp_path), "image_size": 8}))
    assert [note.partition(": ")[0] for note in notes_on_classes(data)] == ["no validation images of dog"]


def test_a_class_without_images_in_a_split_is_among_what_is_left_out(tmp_path: Path) -> None:
    folder_with(tmp_path, "train/cat/1.png", "train/dog/2.png", "val/cat/3.png", "test/dog/4.png")
    (tmp_path / "val" / "dog").mkdir()
    source = folder_source(tmp_path)
    assert source.val is not None
    assert source.test is not None
    assert source.val.left_out == (SkippedFile(str(tmp_path / "val" / "dog"), "no image of this class"),)
    assert source.test().left_out == (SkippedFile(str(tmp_path / "test" / "cat"), "no image of this class"),)
    assert source.train.left_out == ()


def test_of_classes_that_are_not_kept_nothing_is_left_out(tmp_path: Path) -> None:
    folder_with(tmp_path, *(f"{name}/1.png" for name in ("ant", "bee", "cow")))
    for name in ("ant", "bee", "cow"):
        (tmp_path / name / "notes.txt").write_text("")
    kept = folder_source(tmp_path).train.restricted([2, 0])
    assert [Path(item.path).parent.name for item in kept.left_out] == ["ant", "cow"]
    assert [Path(item.path).parent.name for item in kept.restricted([0]).left_out] == ["cow"]
