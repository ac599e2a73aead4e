"""Tables, arrays and saved datasets are the same data as the class folder with the same images."""

import csv
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from in_memory import in_memory
from opened_images import record_images
from own_formats import CLASSES, WRITERS, as_csv, write_images
from PIL import Image

import hba
from hba.data import load_evaluation_data, load_search_data
from hba.data.config import DataConfig, resolved_data
from hba.data.identity import SeenImages, identities
from hba.data.streaming import StreamedImages
from hba.errors import DataError, RunError, SettingsError

SPLIT = {"train": 5, "val": 2, "test": 3}
UNSPLIT = {"": 10}
TINY: dict[str, Any] = {"model": "wrn-10-1", "epochs": 2, "batch_size": 8, "device": "cpu", "image_size": 8}


def config_of(data: Path, **settings: Any) -> DataConfig:
    return DataConfig.make({"data": str(data), "image_size": 8, **settings})


def told(data: Path, **settings: Any) -> dict[str, Any]:
    """All that a search and an evaluation get of the data."""
    config = config_of(data, **settings)
    search, evaluation = load_search_data(config), load_evaluation_data(config)
    return {
        "classes": search.class_names,
        "classes of the evaluation": evaluation.class_names,
        "training": search.train.fingerprint(),
        "validation": search.val.fingerprint(),
        "all training": evaluation.train.fingerprint(),
        "test": in_memory(evaluation.test).fingerprint(),
        "counts": (len(search.train), len(search.val), len(evaluation.train), evaluation.n_test, search.test_images),
    }


@pytest.mark.parametrize("parts", [SPLIT, UNSPLIT], ids=["split", "unsplit"])
@pytest.mark.parametrize("kind", WRITERS)
def test_each_format_is_the_folder_with_the_same_images(kind: str, parts: dict[str, int], tmp_path: Path) -> None:
    """12x10 pixels are resized to 8, so that how this is done counts too."""
    folder = tmp_path / "images"
    data = WRITERS[kind](tmp_path, [one._replace(path=f"images/{one.path}") for one in write_images(folder, parts)])
    expected = told(folder)
    assert expected["classes"] == CLASSES
    assert told(data) == expected
    # Other sizes choose other images, the same ones.
    sizes = {"train_size": 8, "val_size": 4, "split_seed": 3}
    assert told(data, **sizes) == told(folder, **sizes)


@pytest.mark.parametrize("kind", ["csv", "saved"])
def test_a_jpeg_that_is_far_too_large_is_decoded_as_in_a_folder(kind: str, tmp_path: Path) -> None:
    """At a part of its size, by the decoder itself, which gives other pixels than a whole decoding."""
    shown = write_images(tmp_path, {"train": 3, "test": 1}, kind="jpg")
    for one in shown:
        picture = Image.open(tmp_path / one.path).resize((320, 300))
        picture.save(tmp_path / one.path)
    data = WRITERS[kind](tmp_path, shown)
    shutil.rmtree(tmp_path / "val", ignore_errors=True)
    (tmp_path / "only").mkdir()
    for part in ("train", "test"):
        shutil.copytree(tmp_path / part, tmp_path / "only" / part)
    assert told(data) == told(tmp_path / "only")


@pytest.mark.parametrize("kind", WRITERS)
def test_some_classes_can_be_kept(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "images"
    shown = [one._replace(path=f"images/{one.path}") for one in write_images(folder, SPLIT)]
    (tmp_path / "classes.txt").write_text("dog\n9\n")
    classes = {"classes": str(tmp_path / "classes.txt")}
    expected = told(folder, **classes)
    assert expected["classes"] == ("9", "dog")
    assert told(WRITERS[kind](tmp_path, shown), **classes) == expected


@pytest.mark.parametrize("kind", WRITERS)
def test_a_search_reads_nothing_of_a_test_split(kind: str, tmp_path: Path) -> None:
    """It works where nothing of it can be read, and an evaluation then does not."""
    shown = write_images(tmp_path, SPLIT)
    data = WRITERS[kind](tmp_path, shown)
    expected = load_search_data(config_of(data))
    if kind == "npz":
        with zipfile.ZipFile(data) as whole:
            content = {name: whole.read(name) for name in whole.namelist()}
        with zipfile.ZipFile(data, "w") as broken:
            for name, one in content.items():
                broken.writestr(name, b"nothing" if name.startswith("test") else one)
    else:
        shutil.rmtree(data / "test" if kind == "saved" else tmp_path / "test")
    search = load_search_data(config_of(data))
    assert (search.train.fingerprint(), search.val.fingerprint()) == (
        expected.train.fingerprint(),
        expected.val.fingerprint(),
    )
    assert search.test_images == 0
    with pytest.raises(DataError):
        load_evaluation_data(config_of(data))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_search_opens_no_file_that_is_drawn_for_the_test(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = WRITERS[kind](tmp_path, write_images(tmp_path, UNSPLIT))
    opened = record_images(monkeypatch)
    search = load_search_data(config_of(data))
    of_search = set(opened)
    assert len(of_search) == len(search.train) + len(search.val) == 32
    opened.clear()
    in_memory(load_evaluation_data(config_of(data)).test)
    assert len(set(opened) - of_search) == 8 == search.test_images


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_images_of_a_table_are_streamed_as_those_of_a_folder_are(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "images"
    shown = [one._replace(path=f"images/{one.path}") for one in write_images(folder, SPLIT)]
    config = config_of(WRITERS[kind](tmp_path, shown), stream=True, workers=0)
    of_table, of_folder = load_search_data(config), load_search_data(config_of(folder, stream=True, workers=0))
    assert isinstance(of_table.train, StreamedImages)
    # Of names, sizes and labels.
    assert of_table.train.fingerprint() == of_folder.train.fingerprint()
    ((images, labels),) = of_table.train.once(100)
    kept = in_memory(load_search_data(config_of(folder)).train)
    assert torch.equal(images, kept.images)
    assert torch.equal(labels, kept.labels)
    assert load_evaluation_data(config).is_streamed


@pytest.mark.parametrize("kind", ["npz", "saved"])
def test_other_formats_cannot_be_streamed(kind: str, tmp_path: Path) -> None:
    data = WRITERS[kind](tmp_path, write_images(tmp_path, SPLIT))
    with pytest.raises(
        DataError, match=r"only images in files of their own, and prepared ones, can be streamed, not .*; omit"
    ):
        load_search_data(config_of(data, stream=True))


@pytest.mark.parametrize("kind", WRITERS)
def test_what_a_search_has_seen_is_known_again(kind: str, tmp_path: Path) -> None:
    """In the same data split otherwise, and for files in a folder as well: each image is one of its own."""
    folder = tmp_path / "images"
    shown = [one._replace(path=f"images/{one.path}") for one in write_images(folder, UNSPLIT)]
    data = WRITERS[kind](tmp_path, shown)
    listing = load_search_data(config_of(data)).listing
    assert listing is not None
    seen = SeenImages.from_json(SeenImages.of_listing(listing).to_json())
    assert seen is not None

    def count(place: Path, seed: int) -> int:
        tested = load_evaluation_data(config_of(place, split_seed=seed)).listing
        assert tested is not None
        return seen.count(identities(tested.chosen)).n_seen if seen.kind == tested.kind else -1

    assert count(data, 0) == 0
    assert 0 < count(data, 1) < 8
    if kind != "npz":
        assert (count(folder, 0), count(folder, 1)) == (0, count(data, 1))


@pytest.mark.parametrize("kind", WRITERS)
def test_an_evaluation_on_searched_images_is_refused_and_one_on_others_is_not(kind: str, tmp_path: Path) -> None:
    data = WRITERS[kind](tmp_path, write_images(tmp_path, UNSPLIT))
    schedule = hba.search(data, out=tmp_path / "run", probes=0, **TINY).schedule
    assert schedule is not None
    assert schedule.provenance["settings"]["data"] == str(data)
    result = hba.evaluate(tmp_path / "run", seeds=1, out=tmp_path / "results")
    assert not any("does not tell" in note or "changed" in note for note in result.warnings)
    with pytest.raises(SettingsError, match=r"has seen \d of the 8 test images"):
        hba.evaluate(schedule, data, split_seed=1, seeds=1)


@pytest.mark.parametrize("kind", WRITERS)
def test_a_run_is_not_resumed_on_other_labels(kind: str, tmp_path: Path) -> None:
    shown = write_images(tmp_path, SPLIT)
    data = WRITERS[kind](tmp_path, shown)
    hba.search(data, out=tmp_path / "run", probes=0, **TINY)
    assert hba.search(out=tmp_path / "run", resume=True).finished
    shutil.rmtree(data) if data.is_dir() else data.unlink()
    WRITERS[kind](tmp_path, [shown[0]._replace(label="dog"), *shown[1:]])
    with pytest.raises(RunError, match="the images or their split changed since"):
        hba.search(out=tmp_path / "run", resume=True)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_broken_file_of_a_table_is_left_out_like_one_of_a_folder(kind: str, tmp_path: Path) -> None:
    shown = write_images(tmp_path, SPLIT)
    data = WRITERS[kind](tmp_path, shown)
    broken, gone = (tmp_path / shown[number].path for number in (0, 1))
    broken.write_bytes(b"no image")
    with pytest.raises(DataError, match=f"cannot read the image {broken} .*use --skip-broken"):
        load_search_data(config_of(data))
    gone.unlink()
    with pytest.raises(DataError, match=rf"1 of the 20 images of .* cannot be found, row \d+ first: '{gone}'"):
        load_search_data(config_of(data))
    hba.search(data, out=tmp_path / "run", skip_broken=True, probes=0, **TINY)
    with (tmp_path / "run" / "left_out.csv").open(newline="") as file:
        left_out = {Path(row["path"]): row["reason"] for row in csv.DictReader(file)}
    assert left_out.keys() == {broken, gone}
    assert left_out[gone] == "no such file or directory"


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("npz", {"label_column": "label"}, "label_column has no effect on .*, which has no columns to choose; omit it"),
        ("folder", {"path_column": "path"}, "path_column has no effect on "),
        ("saved", {"split_column": "split"}, "split_column has no effect on "),
        ("csv", {"download": True}, "download has no effect on .*, a table of images; omit it"),
    ],
)
def test_settings_of_other_formats_are_refused(
    kind: str, settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    shown = write_images(tmp_path, SPLIT)
    data = tmp_path if kind == "folder" else WRITERS[kind](tmp_path, shown)
    with pytest.raises(SettingsError, match=message):
        load_search_data(config_of(data, **settings))
    with pytest.raises(SettingsError, match="label_column has no effect on digits"):
        load_search_data(DataConfig(data="digits", label_column="label"))


def test_a_moved_table_is_found_again_with_its_columns(tmp_path: Path) -> None:
    """By resume and by an evaluation, which on a folder do without the columns."""
    place = tmp_path / "old"
    place.mkdir()
    data = place / "list.csv"
    shown = write_images(place, UNSPLIT)
    rows = [f"{one.path},{one.label},test" for one in shown]
    data.write_text("\n".join(["where,species,split", *rows]))
    columns: dict[str, Any] = {"path_column": "where", "label_column": "species", "split_column": "none"}
    schedule = hba.search(data, out=tmp_path / "run", probes=0, **columns, **TINY).schedule
    assert schedule is not None
    place.rename(tmp_path / "new")
    with pytest.raises(DataError, match=r"the images of .* are no longer in .*old/list\.csv; name the folder"):
        hba.search(out=tmp_path / "run", resume=True)
    moved = tmp_path / "new" / "list.csv"
    assert hba.search(moved, out=tmp_path / "run", resume=True).finished
    with pytest.raises(SettingsError, match=r"a resumed run keeps its settings; .* label_column 'species'"):
        hba.search(moved, out=tmp_path / "run", resume=True, label_column="where")
    of_table = hba.policy_evaluation.explain(schedule, moved)
    assert {name: of_table[name].value for name in columns} == columns
    assert {of_table[name].layer for name in columns} == {"images of the search"}
    moved.unlink()
    of_folder = hba.policy_evaluation.explain(schedule, tmp_path / "new")
    assert {of_folder[name].value for name in columns} == {None}


def test_a_table_is_called_by_where_it_lies_and_not_where_a_link_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its paths are relative to is then the same from everywhere."""
    (tmp_path / "lists").mkdir()
    file = as_csv(tmp_path, write_images(tmp_path, UNSPLIT))
    file.rename(tmp_path / "lists" / "all.csv")
    (tmp_path / "link.csv").symlink_to(tmp_path / "lists" / "all.csv")
    monkeypatch.chdir(tmp_path)
    assert resolved_data({"data": "link.csv"}) == {"data": str(tmp_path / "link.csv")}
    assert len(load_search_data(config_of(Path("link.csv"))).train) == 26
    with pytest.raises(DataError, match=r"40 of the 40 images of .* cannot be found"):
        load_search_data(config_of(Path("lists/all.csv")))
