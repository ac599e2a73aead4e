"""CSV and Parquet files of paths and labels: which cells are read as what, and what is refused."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from PIL import Image

from hba.data.columns import BY_NAME, Columns
from hba.data.folder import FilePool
from hba.data.images import Pool, Source
from hba.data.table import table_source
from hba.errors import DataError, HbaError, SettingsError

IMAGES = [f"{name}/{number}.png" for name in ("cat", "dog") for number in range(3)]
NO_LABEL = (
    "has no label: fill it, or remove the row; in a table of several labels for an image an empty cell is none of "
    "them, with --label-separator"
)
ROWS = [f"{path},{path[:3]}" for path in IMAGES]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with three small images each in cat/ and dog/."""
    for number, path in enumerate(IMAGES):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        Image.new("RGB", (4, 4), (number, 0, 0)).save(tmp_path / path)
    return tmp_path


def written(place: Path, content: str | bytes, name: str = "images.csv") -> Path:
    (place / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return place / name


def csv_of(rows: Sequence[str] = ROWS, header: str = "path,label") -> str:
    return "\n".join([header, *rows]) + "\n"


def with_ends(end: str, rows: Sequence[str] = ROWS) -> list[str]:
    return [f"{row},{end}" for row in rows]


def listed(pool: Pool | None, names: Sequence[str]) -> list[tuple[str, str]]:
    """Each image below its folder, and its class."""
    assert isinstance(pool, FilePool)
    return [(str(path), names[label]) for path, label in zip(pool.paths, pool.labels, strict=True)]


def images_of(source: Source, place: Path) -> list[tuple[str, str]]:
    return [(os.path.relpath(path, place), name) for path, name in listed(source.train, source.class_names)]


def refusal(file: Path, columns: Columns = BY_NAME, skip_broken: bool = False) -> str:
    with pytest.raises(HbaError) as raised:
        table_source(file, columns, skip_broken)
    message = str(raised.value)
    assert len(message.splitlines()) == 1
    return message.replace(str(file.parent) + "/", "")


EXPECTED = [(path, path[:3]) for path in IMAGES]


@pytest.mark.parametrize(
    "content",
    [
        csv_of(),
        csv_of(list(reversed(ROWS))),
        csv_of().encode("utf-8-sig"),
        csv_of().replace(",", ";"),
        csv_of().replace(",", "\t"),
        csv_of().replace("\n", "\r\n"),
        csv_of().replace("\n", "\n\n").removesuffix("\n\n"),
        csv_of().replace(",", ", "),
        csv_of([f'"{row[:9]}","{row[10:]}"' for row in ROWS], '"path","label"'),
        csv_of(header="Path,LABEL"),
        csv_of(with_ends("7"), header="filename,target,other"),
        csv_of([f"3,{row[10:]},{row[:9]}" for row in ROWS], header="number,class,image"),
        csv_of([f"./{row[:3]}/../{row}" for row in ROWS]),
    ],
    ids=[
        "plain", "another order", "byte order mark", "semicolons", "tabs", "Windows", "empty lines", "spaces", "quotes",
        "capitals", "other columns", "other names", "dots",
    ],
)  # fmt: skip
def test_these_are_read_alike(content: str | bytes, place: Path) -> None:
    assert images_of(table_source(written(place, content)), place) == EXPECTED


def test_chosen_columns_are_read_and_told(place: Path) -> None:
    file = written(place, csv_of(with_ends("test"), header="label,path,split"))
    source = table_source(file, Columns(path="label", label="path", split="none"))
    assert images_of(source, place) == EXPECTED
    assert source.facts == ("columns of images.csv: images from 'label', classes from 'path'",)
    assert (source.val, source.test) == (None, None)


def test_paths_may_lead_anywhere(place: Path) -> None:
    """Absolute, or out of the table's folder; links are files of their own, as in a folder."""
    (place / "lists").mkdir()
    (place / "lists" / "link.png").symlink_to(place / "dog" / "2.png")
    rows = [*(f"../{row}" for row in ROWS[:3]), *(f"{place}/{row}" for row in ROWS[3:]), "link.png,dog"]
    source = table_source(written(place, csv_of(rows), "lists/images.csv"))
    assert sorted(images_of(source, place)) == [*EXPECTED, ("lists/link.png", "dog")]
    assert isinstance(source.train, FilePool)
    assert source.train.folder == place
    assert [source.train.known_as(number) for number in (0, 3, 6)] == ["cat/0.png", "dog/0.png", "dog/link.png"]


def test_classes_are_sorted_as_text_and_numbers_are_names(place: Path) -> None:
    rows = [f"{path},{label}" for path, label in zip(IMAGES, (10, 9, 100, 9, 10, 100), strict=True)]
    source = table_source(written(place, csv_of(rows)))
    assert source.class_names == ("10", "100", "9")
    frame = pandas.DataFrame({"path": IMAGES, "label": np.array([10, 9, 100, 9, 10, 100])})
    for kind in ("int64", "uint8", "float32", "Int16", "str", "category", "object"):
        frame.astype({"label": kind}).to_parquet(place / "images.parquet")
        assert table_source(place / "images.parquet").class_names == source.class_names, kind


def test_a_class_may_be_called_na_but_not_nothing(place: Path) -> None:
    assert table_source(written(place, csv_of([*ROWS[:3], *(f"{path},NA" for path in IMAGES[3:])]))).class_names == (
        "NA",
        "cat",
    )
    for nothing in ("", " ", "nan", "NaN"):
        message = refusal(written(place, csv_of([*ROWS[:5], f"dog/2.png,{nothing}"])))
        assert message == f"row 7 of images.csv ('dog/2.png') {NO_LABEL}"


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ("val", "val"),
        ("Validation", "val"),
        ("valid", "val"),
        ("dev", "val"),
        ("TEST", "test"),
        ("testing_set", "test"),
    ],
)
def test_splits_have_their_usual_names(given: str, part: str, place: Path) -> None:
    rows = [f"{row},{given if '/2' in row else 'train'}" for row in ROWS]
    source = table_source(written(place, csv_of(rows, "path,label,split")))
    other = source.val if part == "val" else source.test() if source.test else None
    assert [Path(path).name for path, _ in listed(other, source.class_names)] == ["2.png", "2.png"]
    assert [path[-5:] for path, _ in images_of(source, place)] == ["0.png", "1.png"] * 2
    assert (source.val is None) == (part == "test")


def test_a_class_without_test_images_is_noted_and_an_unknown_one_refused(place: Path) -> None:
    rows = [f"{row},{'test' if row.startswith('dog/2') else 'train'}" for row in ROWS]
    source = table_source(written(place, csv_of(rows, "path,label,split")))
    assert source.test is not None
    assert [item.reason for item in source.test().left_out] == ["no image of this class"]
    rows = [row.replace("dog,test", "Dog,test") for row in rows]
    source = table_source(written(place, csv_of(rows, "path,label,split")))
    assert source.test is not None
    with pytest.raises(DataError, match="has the class 'Dog', which the training images do not have; they have 'dog'"):
        source.test()


def test_missing_files_are_left_out_where_that_is_asked_for(place: Path) -> None:
    file = written(place, csv_of([*ROWS, "dog/9.png,dog", "cat,cat"]))
    assert refusal(file) == (
        f"2 of the 8 images of images.csv cannot be found, row 8 first: 'dog/9.png' (no such file or directory); mend "
        f"the table, whose paths begin at {place}, or use --skip-broken"
    )
    source = table_source(file, skip_broken=True)
    assert images_of(source, place) == EXPECTED
    assert {(os.path.relpath(item.path, place), item.reason) for item in source.train.left_out} == {
        ("dog/9.png", "no such file or directory"),
        ("cat", "not a file"),
    }
    assert (
        refusal(written(place, csv_of(["a,cat", "b,dog"])), skip_broken=True).replace(f"{place}/", "")
        == "none of the 2 images of images.csv can be found, 'a' first"
    )


HEADER3 = "path,label,split"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot read the table images.csv (No columns to parse from file); mend it, or save it anew"),
        (csv_of([]), "images.csv has no rows; columns: 'path', 'label'"),
        (csv_of(header="file,kind"), "images.csv has no column called label, class or target: name the one of the lab"),
        ("\n".join(ROWS), "images.csv has no column called path, file, filename, file_name, image or image_path: "),
        (csv_of(with_ends("a"), "path,label,label"), "images.csv has two columns 'label'; rename one of them"),
        (csv_of(with_ends("a"), "path,label,class"), "the columns 'label' and 'class' of images.csv could each be the"),
        (csv_of([*ROWS, "x.png"]), f"row 8 of images.csv ('x.png') {NO_LABEL}"),
        (csv_of([*ROWS, ",cat"]), "row 8 of images.csv has no path: fill it, or remove the row"),
        (csv_of([*ROWS, "x.png,cat,3"]), "cannot read the table images.csv (Error tokenizing data. C error: Expected "),
        (csv_of(with_ends("3")), "cannot read the table images.csv (Error tokenizing data. C error: Expected 2"),
        (csv_of([*ROWS, '"x.png,cat']), "cannot read the table images.csv (Error tokenizing data. C error: EOF inside"),
        (csv_of([*ROWS, "cat/0.png,dog"]), "images.csv has 'cat/0.png' twice, in the rows 2 and 8: keep one of them"),
        (csv_of([*ROWS, "./cat/0.png,cat"]), "images.csv has './cat/0.png' twice, in the rows 2 and 8: keep one of th"),
        (csv_of(ROWS[:3]), "images.csv has one class only, 'cat': add images of another"),
        (csv_of(with_ends("3"), HEADER3), "row 2 of images.csv has the split '3', but splits must be called train, va"),
        (csv_of(with_ends("eval"), HEADER3), "row 2 of images.csv has the split 'eval', which could be either: call i"),
        (csv_of(with_ends(""), HEADER3), "row 2 of images.csv has no split: fill it, or remove the row"),
        (csv_of(with_ends("test"), HEADER3), "images.csv has no rows of the split train; column 'split' must say trai"),
        (csv_of([*ROWS, "x.png,k\xe4fer"]).encode("latin-1"), "images.csv is not text in UTF-8 (invalid continuation"),
        (csv_of().encode("utf-16"), "images.csv is not text in UTF-8 (invalid start byte at byte 0); save it as UTF-8"),
        (b"\0\0\0\0", "cannot read the table images.csv (it is no text); mend it, or save it anew"),
        (csv_of([*ROWS, "x\0.png,cat"]), "1 of the 7 images of images.csv cannot be found, row 8 first: 'x"),
        (csv_of([*ROWS, '"x\n.png",cat']), "1 of the 7 images of images.csv cannot be found, row 8 first: 'x\\n.png' "),
        (csv_of([*ROWS, f"{'x' * 300},cat"]), "1 of the 7 images of images.csv cannot be found, row 8 first: 'xxx"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_as_meant_is_refused(content: str | bytes, message: str, place: Path) -> None:
    assert refusal(written(place, content)).startswith(message)


def test_a_column_that_is_not_there_is_refused_with_what_may_be_meant(place: Path) -> None:
    file = written(place, csv_of(with_ends("a"), "path,label,species"))
    assert refusal(file, Columns(label="specie")) == (
        "images.csv has no column 'specie'; did you mean species?; columns: 'path', 'label', 'species'"
    )
    assert table_source(file, Columns(label="label")).class_names == ("cat", "dog")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"label": [0.5] * 6}, "row 1 of images.parquet ('cat/0.png') has as label 0.5, no whole number: only classes"),
        (
            {"label": [[0, 1]] * 6},
            "row 1 of images.parquet ('cat/0.png') has as label 2 values: of several labels ",
        ),
        ({"label": [None, *"bcdef"]}, f"row 1 of images.parquet ('cat/0.png') {NO_LABEL}"),
        ({"label": [np.nan, 1, 1, 0, 0, 0]}, "row 1 of images.parquet ('cat/0.png') has no label: fill it, or remove"),
        (
            {"label": [b"a"] * 6},
            "row 1 of images.parquet ('cat/0.png') has as label a bytes: a class is text or a whole",
        ),
        ({"path": [1] * 6}, "column 'path' of images.parquet must hold paths, but row 1 has the int 1"),
        (
            {"path": [{"bytes": b"x"}] * 6},
            "column 'path' of images.parquet must hold paths, but row 1 has a dict; save",
        ),
        ({"split": [0] * 6}, "row 1 of images.parquet has the split '0', but splits must be called train, val, test"),
    ],
)
def test_columns_of_a_parquet_file_must_hold_what_they_should(
    columns: dict[str, Any], message: str, place: Path
) -> None:
    frame = pandas.DataFrame({"path": IMAGES, "label": [path[:3] for path in IMAGES], **columns})
    frame.to_parquet(place / "images.parquet")
    assert refusal(place / "images.parquet").startswith(message)


def test_a_broken_parquet_file_is_refused(place: Path) -> None:
    assert refusal(written(place, b"PAR1", "images.parquet")).startswith("cannot read the table images.parquet (")
    pandas.DataFrame({"path": IMAGES, "label": "a"}).to_parquet(place / "whole.parquet")
    content = (place / "whole.parquet").read_bytes()
    for length in range(0, len(content), 97):
        assert "images.parquet" in refusal(written(place, content[:length], "images.parquet"))


@pytest.mark.parametrize(("module", "name"), [("pandas", "images.csv"), ("pyarrow", "images.parquet")])
def test_without_the_library_the_message_says_how_to_get_it(
    module: str, name: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SettingsError) as raised:
        table_source(written(place, csv_of(), name))
    assert str(raised.value) == f"the table {place / name} needs {module}: pip install 'hba-augment[tables]'"
