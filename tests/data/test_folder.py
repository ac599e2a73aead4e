"""Folders: which files are images, which folders are splits, and what is refused."""

import errno
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from hba.data.config import DataConfig, display_name, format_of, run_name
from hba.data.folder import find_splits, folder_source
from hba.data.formats import find_source
from hba.data.images import LabelledImages
from hba.data.pool import Pool
from hba.errors import DataError


def folder_with(folder: Path, *names: str) -> Path:
    """Small images under these names; a name that ends in / is an empty folder."""
    for name in names:
        path = folder / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            Image.new("RGB", (4, 4), (len(name), 0, 0)).save(path)
    return folder


def files_of(pool: Pool) -> list[str]:
    return [Path(pool.items.name(number)).name for number in pool.numbers]


def read_all(folder: Path, skip_broken: bool = False, **options: Any) -> LabelledImages:
    return replace(
        folder_source(folder).train, image_size=4, most_broken=99 * skip_broken
    ).read(**options)


def refusal(folder: Path) -> str:
    with pytest.raises(DataError) as raised:
        folder_source(folder)
    assert len(str(raised.value).splitlines()) == 1
    return str(raised.value)


def test_classes_and_files_are_sorted_and_splits_are_pools(tmp_path: Path) -> None:
    folder_with(
        tmp_path / "a",
        "dog/b.png",
        "cat/z.png",
        "cat/a.png",
        "dog/a.png",
        "cat/more/e.png",
    )
    source = folder_source(tmp_path / "a")
    assert source.class_names == ("cat", "dog")
    assert source.train.labels.tolist() == [0, 0, 0, 1, 1]
    assert files_of(source.train) == ["a.png", "e.png", "z.png", "a.png", "b.png"]
    assert (source.name, source.val, source.test) == (str(tmp_path / "a"), None, None)
    folder_with(
        tmp_path / "b",
        "train/cat/1.png",
        "train/dog/2.png",
        "val/dog/3.png",
        "test/cat/4.png",
        "test/dog/5.png",
    )
    source = folder_source(tmp_path / "b")
    assert source.val is not None
    assert source.test is not None
    listed = [
        (files_of(pool), pool.labels.tolist())
        for pool in (source.train, source.val, source.test())
    ]
    assert listed == [
        (["1.png", "2.png"], [0, 1]),
        (["3.png"], [1]),
        (["4.png", "5.png"], [0, 1]),
    ]


def test_which_files_count(tmp_path: Path) -> None:
    names = ["a.PNG", "b.JPG", "c.Jpeg", "d.BMP", "e.ppm", "f.TIF", "g.webp"]
    folder_with(
        tmp_path,
        *(f"cat/{name}" for name in names),
        "cat/.b.png",
        ".thumbnails/d.png",
        "dog/x.png",
        "loose.png",
    )
    for name in ("notes.txt", "cat/Thumbs.db", "cat/labels.csv", "cat/png"):
        (tmp_path / name).write_bytes(b"no image")
    (tmp_path / "cat" / "folder.png").mkdir()
    (tmp_path / "to sort" / "new").mkdir(parents=True)
    (tmp_path / "cat" / "link.png").symlink_to(tmp_path / "dog" / "x.png")
    source = folder_source(tmp_path)
    assert source.class_names == ("cat", "dog")
    train = source.train
    assert files_of(train) == [*names, "link.png", "x.png"]
    left_out = {Path(item.path).name for item in train.unused}
    assert left_out == {"notes.txt", "labels.csv", "png", "loose.png", "to sort"}
    assert all(item.reason for item in train.unused)


def test_linked_folders_are_followed_to_their_end(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "a", "cat/1.png", "dog/2.png")
    other = folder_with(tmp_path / "b", "cat/3.png")
    (folder / "cat" / "more").symlink_to(other)
    (other / "back").symlink_to(folder / "cat")
    for name, target in (("up", folder), ("self", folder / "dog"), ("root", Path("/"))):
        (folder / "dog" / name).symlink_to(target)
    (folder / "emu").symlink_to(folder_with(tmp_path / "c", "4.png"))
    train = folder_source(folder).train
    assert (files_of(train), train.unused) == (["1.png", "3.png", "2.png", "4.png"], ())


def test_images_of_formats_that_are_not_read_count_as_broken(tmp_path: Path) -> None:
    folder = folder_with(
        tmp_path,
        *(f"{name}/{number}.png" for name in ("cat", "dog") for number in range(10)),
    )
    for name in ("1.heic", "2.NEF", "no ending", "a.png?size=2"):
        (folder / "cat" / name).write_bytes((folder / "cat" / "1.png").read_bytes())
    (folder / "cat" / "3.txt").write_text("a cat")
    config = DataConfig(data=str(folder), skip_broken=False)
    with pytest.raises(DataError, match="4 of 24 images"):
        find_source(config.model_copy(update={"skip_broken": False}))
    pool = find_source(config.model_copy(update={"skip_broken": None})).train
    assert (len(pool), len(pool.unused), pool.most_broken) == (20, 5, 1)
    assert "JPEG" in next(
        item.reason for item in pool.unused if item.path.endswith(".heic")
    )
    for path in folder.rglob("*.png"):
        path.rename(path.with_suffix(".heic"))
    assert "JPEG" in refusal(folder)


def test_a_folder_that_cannot_be_listed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = folder_with(tmp_path, "cat/1.png", "dog/1.png") / "dog"
    scan = os.scandir
    exists = Path.exists

    def deny(function: Any, path: Any) -> Any:
        if closed in (Path(path), Path(path).parent):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return function(path)

    monkeypatch.setattr(os, "scandir", partial(deny, scan))
    monkeypatch.setattr(Path, "exists", lambda path: deny(exists, path))
    assert f"{closed} (Permission denied); make it readable" in refusal(tmp_path)


def test_a_name_is_the_same_in_all_forms_of_unicode(tmp_path: Path) -> None:
    name = "caf\u00e9"
    other = "cafe\u0301"
    folder_with(
        tmp_path,
        f"train/{name}/1.png",
        "train/b/1.png",
        f"train/{other}/2.png",
        f"test/{other}/3.png",
    )
    source = folder_source(tmp_path)
    assert source.class_names == ("b", name)
    assert source.test is not None
    assert (source.train.labels.tolist(), source.test().labels.tolist()) == (
        [0, 1, 1],
        [1],
    )


BROKEN = {
    "text.png": b"no image at all",
    "empty.jpg": b"",
    "cut.png": None,
    "program.eps": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\nshowpage\n",
}


def test_broken_images_are_named_or_left_out_with_a_reason(tmp_path: Path) -> None:
    folder_with(tmp_path, "cat/a.png", "dog/b.png", "dog/c.png")
    assert len(read_all(tmp_path)) == 3
    for name, content in BROKEN.items():
        path = tmp_path / "cat" / name.replace(".eps", ".png")
        path.write_bytes(
            (tmp_path / "cat" / "a.png").read_bytes()[:-40]
            if content is None
            else content
        )
        with pytest.raises(DataError, match=path.name) as raised:
            read_all(tmp_path)
        assert len(str(raised.value).splitlines()) == 1
        data = read_all(tmp_path, skip_broken=True)
        assert (len(data), [item.path for item in data.left_out]) == (3, [str(path)])
        assert data.labels.tolist() == [0, 1, 1]
        path.unlink()
    os.mkfifo(tmp_path / "cat" / "pipe.png")
    (tmp_path / "cat" / "self.png").symlink_to(tmp_path / "cat" / "self.png")
    assert len(read_all(tmp_path, skip_broken=True).left_out) == 2
    for path in tmp_path.rglob("[a-c].png"):
        path.write_bytes(b"nothing")
    with pytest.raises(DataError):
        read_all(tmp_path, skip_broken=True)


def test_splits_are_read_under_all_their_names(tmp_path: Path) -> None:
    for names in (
        "train val test",
        "Training valid-images test_set",
        "TrainData devset Testing",
    ):
        folder = folder_with(
            tmp_path / names,
            *(f"{split}/{name}/1.png" for split in names.split() for name in "ab"),
        )
        expected = {
            role: folder / name
            for role, name in zip(("train", "val", "test"), names.split(), strict=True)
        }
        assert find_splits(folder) == expected


def test_what_could_be_a_split_or_a_class_is_refused_with_its_name(
    tmp_path: Path,
) -> None:
    refused = {
        "training": ("train/a/1.png", "training/a/1.png", "train/b/1.png"),
        "test": ("cat/1.png", "dog/1.png", "test/1.png"),
        "holdout": ("train/a/1.png", "train/b/1.png", "holdout/a/1.png"),
        "more": ("train/a/1.png", "train/b/1.png", "test/a/1.png", "more/a/1.png"),
        "cat/test": (
            "cat/train/1.png",
            "cat/test/1.png",
            "dog/train/1.png",
            "dog/test/1.png",
        ),
        "'c'": ("train/a/1.png", "train/b/1.png", "val/c/1.png"),
        "'Cat'": ("train/cat/1.png", "train/b/1.png", "val/Cat/1.png"),
        "test/emu": (
            "train/cat/1.png",
            "train/dog/1.png",
            "test/cat/1.png",
            "test/emu/1.png",
        ),
        "two classes, got cat": ("cat/1.png",),
        "1.png": ("1.png",),
        "folders of classes": ("train/a/", "train/b/"),
    }
    for number, (name, files) in enumerate(refused.items()):
        assert name in refusal(folder_with(tmp_path / str(number), *files)), name
    for files in (("car/1.png", "train/1.png"), ("cat/a/1.png", "dog/a/1.png")):
        assert (
            len(folder_source(folder_with(tmp_path / files[0][:3], *files)).class_names)
            == 2
        )


def test_images_beside_splits_and_runs_among_images_are_no_classes(
    tmp_path: Path,
) -> None:
    folder_with(
        tmp_path / "a",
        *(f"{split}/{name}/1.png" for split in ("train", "test") for name in "ab"),
        "extra/1.png",
    )
    assert [
        Path(item.path).parent.name
        for item in folder_source(tmp_path / "a").train.unused
    ] == ["extra"]
    folder = folder_with(
        tmp_path / "b", "cat/1.png", "dog/1.png", "runs/b-1/samples.png"
    )
    (folder / "runs" / "b-1" / ".lock").touch()
    assert folder_source(folder).class_names == ("cat", "dog")
    folder_with(folder, "x/.lock/", "x/samples.png")
    assert folder_source(folder).class_names == ("cat", "dog")
    (folder / "runs" / "b-1" / ".lock").unlink()
    assert folder_source(folder).class_names == ("cat", "dog", "runs")


def test_formats_and_names_of_data() -> None:
    formats = {
        "a.csv": "table",
        "a.TSV": "table",
        "a.parquet": "table",
        "a.pq": "table",
        "a.npz": "npz",
        "a": "folder",
    }
    assert {name: format_of(name) for name in formats} == formats
    here = Path.cwd()
    for data, display, run in (
        ("/a/pets/test.csv", "pets/test.csv", "pets-test"),
        ("/a/v1.0", "v1.0", "v1.0"),
        (".", here.name, here.name),
        ("./..", here.parent.name, here.parent.name),
        ("/", "", "data"),
    ):
        assert (display_name(data), run_name(data)) == (display, run)
