"""Tables, saved datasets, .npz files: columns, labels, splits, and what is refused."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from in_memory import config_of, in_memory
from PIL import Image

from hba.data import load_evaluation_data, load_search_data
from hba.data.formats import find_source
from hba.errors import DataError, SettingsError

datasets: Any = pytest.importorskip("datasets", reason="needs the extra datasets")
datasets.disable_progress_bars()
ROWS = [(f"{number:02}.png", ("cat", "dog")[number % 2]) for number in range(12)]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for number in range(12):
        Image.new("RGB", (8, 8), (20 * number, 0, 0)).save(
            tmp_path / f"{number:02}.png"
        )
    return tmp_path


def written(place: Path, content: str | bytes, name: str = "a.csv") -> Path:
    (place / name).write_bytes(
        content.encode() if isinstance(content, str) else content
    )
    return place / name


def csv_of(rows: Any, head: str = "path,label", separator: str = ",") -> str:
    return "\n".join([head, *(separator.join(map(str, row)) for row in rows)]) + "\n"


def labels_of(data: Path, **settings: Any) -> dict[str, str]:
    """By file, its class among the training images."""
    source = find_source(config_of(data, **settings))
    names = [
        Path(source.train.items.name(number)).name for number in source.train.numbers
    ]
    return {
        name: source.class_names[label]
        for name, label in zip(names, source.train.labels.tolist(), strict=True)
    }


def check_refusal(data: Path, named: str, **settings: Any) -> None:
    with pytest.raises((DataError, SettingsError)) as raised:
        load_evaluation_data(config_of(data, **settings))
    assert len(str(raised.value).splitlines()) == 1
    assert named in str(raised.value), (named, str(raised.value))


def test_these_tables_are_read_alike(place: Path) -> None:
    expected = dict(ROWS)
    frame = pandas.DataFrame(ROWS, columns=["path", "label"])
    for name, content in {
        "plain.csv": csv_of(ROWS),
        "order.csv": csv_of(reversed(ROWS)),
        "windows.csv": "\ufeff" + csv_of(ROWS).replace("\n", "\r\n"),
        "semicolon.csv": csv_of(ROWS, "path;label", ";"),
        "tabs.tsv": csv_of(ROWS, "path\tlabel", "\t"),
        "spaces.csv": csv_of(ROWS, "Path , LABEL").replace(",", ", "),
        "quoted.csv": csv_of([(f'"{path}"', f'"{label}"') for path, label in ROWS]),
        "blank.csv": csv_of(ROWS) + "\n\n",
        "more.csv": csv_of([(*row, 1.5) for row in ROWS], "file_name,target,weight"),
        "absolute.csv": csv_of([(place / path, label) for path, label in ROWS]),
        "round.csv": csv_of([(f"x/../{path}", label) for path, label in ROWS]),
        "excel.csv": "sep=;\n" + csv_of(ROWS, "path;label", ";"),
        "comments.csv": "# of 2026, all sites\n\n" + csv_of(ROWS),
        "other.csv": "sep=|\r\n" + csv_of(ROWS, "path|label", "|"),
    }.items():
        assert labels_of(written(place, content, name)) == expected, name
    frame.to_parquet(place / "plain.parquet")
    assert labels_of(place / "plain.parquet") == expected
    data = written(place, csv_of(ROWS, "where,species"), "chosen.csv")
    assert labels_of(data, path_column="where", label_column="species") == expected


def test_classes_are_text_or_whole_numbers(place: Path) -> None:
    paths = [path for path, _ in ROWS]
    for labels, classes in (
        ([10, 9, 2], ("10", "2", "9")),
        ([True, False], ("False", "True")),
        ([1.0, 2.0], ("1", "2")),
        ([2**53, 2**53 + 1], ("9007199254740992", "9007199254740993")),
    ):
        column = (labels * 6)[:12]
        pandas.DataFrame({"path": paths, "label": column}).to_parquet(
            place / "a.parquet"
        )
        assert find_source(config_of(place / "a.parquet")).class_names == classes
    data = written(place, csv_of(zip(paths, ["NA", "None"] * 6, strict=True)))
    assert find_source(config_of(data)).class_names == ("NA", "None")


def test_csv_and_parquet_have_the_same_classes(place: Path) -> None:
    for labels in ([20, 21.5, 23], [0.0, 1.0, 2.0], [0, 1, 2]):
        column = labels * 4
        table = pandas.DataFrame({"path": [path for path, _ in ROWS], "label": column})
        table.to_csv(place / "a.csv", index=False)
        table.to_parquet(place / "a.parquet")
        for name in ("a.csv", "a.parquet"):
            if any(label % 1 for label in labels):
                check_refusal(place / name, "21.5")
            else:
                expected = {
                    path: str(round(label))
                    for (path, _), label in zip(ROWS, column, strict=True)
                }
                assert labels_of(place / name) == expected


def test_classes_that_are_nearly_equal_are_named(place: Path) -> None:
    paths = [path for path, _ in ROWS]
    for labels, named, n_classes in (
        (["cat", "dog", "Cat", "dog"], "'Cat' and 'cat'", 3),
        (["1", "2", "01", "2"], "'01' and '1'", 3),
        (["red fox", "dog", "redfox", "dog"], "'red fox' and 'redfox'", 3),
        (["a b", "C", "a_b", "c"], "'C' and 'c', 'a b' and 'a_b'", 4),
        (["caf\u00e9", "dog", "cafe\u0301", "dog"], None, 2),
        (["cat", "dog", "cat;dog", "emu"], "--label-separator ';'", 4),
        (
            ["['cat']", "['dog']", "\"['cat', 'dog']\"", "emu"],
            "--label-separator ','",
            4,
        ),
        (["Nice, France", "Bonn, Germany"], None, 2),
        (["cat", "cat\u200b"], "look alike", 2),
        (["-1", "1"], None, 2),
        (["0", "1", "0.0", "1.0"], None, 2),
        (["1", "10", "100", "11"], None, 4),
    ):
        rows = zip(paths, (labels * 6)[:12], strict=True)
        data = written(
            place,
            csv_of(
                [
                    (path, label if label[0] == '"' else f'"{label}"')
                    for path, label in rows
                ]
            ),
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert len(find_source(config_of(data)).class_names) == n_classes
        messages = [str(warning.message) for warning in caught]
        assert len(messages) == (named is not None), labels
        assert named is None or named in messages[0]


def test_names_without_folder_and_ending_are_files_by_two_options(place: Path) -> None:
    (place / "images").mkdir()
    for path, _ in ROWS:
        (place / path).rename(place / "images" / path)
    rows = [(Path(path).stem, label) for path, label in ROWS]
    data = written(place, csv_of(rows, "id_code,diagnosis"))
    columns = {"path_column": "id_code", "label_column": "diagnosis"}
    for ending in (".png", "png"):
        assert labels_of(
            data, image_folder="images", image_ending=ending, **columns
        ) == dict(ROWS)
    check_refusal(data, "--image-folder", **columns)
    pandas.DataFrame({"path": [7, 8], "label": ["a", "b"]}).to_parquet(
        place / "numbers.parquet"
    )
    for number in (7, 8):
        Image.new("RGB", (8, 8)).save(place / f"{number}.png")
    assert labels_of(place / "numbers.parquet", image_ending=".png") == {
        "7.png": "a",
        "8.png": "b",
    }
    check_refusal(place, "a.csv")


def test_accents_of_paths_and_columns_may_have_another_form_than_files(
    place: Path,
) -> None:
    rows = [(f"cafe\u0301 {path}", label) for path, label in ROWS]
    for path, _ in ROWS:
        (place / path).rename(place / f"caf\u00e9 {path}")
    data = written(place, csv_of(rows, "path,cate\u0301gorie"))
    labels = labels_of(data, label_column="cat\u00e9gorie")
    assert labels == {f"caf\u00e9 {path}": label for path, label in ROWS}


def test_splits_are_those_of_the_column_and_may_lack_a_class(place: Path) -> None:
    parts = ("Train", "training", "train", "valid", "dev", "Test")
    rows = [(*row, parts[number // 2]) for number, row in enumerate(ROWS[:11])]
    data = written(place, csv_of(rows, "path,label,split"))
    search = load_search_data(config_of(data))
    evaluation = load_evaluation_data(config_of(data))
    assert (
        len(search.train),
        len(search.val),
        evaluation.n_test,
        search.test_images,
    ) == (6, 4, 1, 0)
    assert len(labels_of(data, split_column="none")) == 11
    check_refusal(
        written(place, csv_of([(*row, "extra") for row in ROWS], "path,label,split")),
        "'extra'",
    )
    check_refusal(
        written(place, csv_of([(*row, "holdout") for row in ROWS], "path,label,split")),
        "'holdout'",
    )
    rows[-1] = (ROWS[10][0], "emu", "test")
    check_refusal(written(place, csv_of(rows, "path,label,split")), "'emu'")


def test_tables_that_cannot_be_used_are_refused_by_what_is_wrong(place: Path) -> None:
    for content, named in (
        ("", "a.csv"),
        ("path,label\n", "no rows"),
        (b"path,label\n\xff\xfe\x00,x\n", "a.csv"),
        (csv_of(ROWS, "id,name"), "--path-column"),
        (csv_of([*ROWS, ("", "cat")]), "row 14"),
        (csv_of([*ROWS, ("x.png", "")]), "row 14"),
        (csv_of([*ROWS, (f"./{ROWS[0][0]}", "cat")]), "row 14"),
        (csv_of([(path, "cat") for path, _ in ROWS]), "two classes"),
        (csv_of(ROWS) + "00.png,cat,dog,emu\n", "a.csv"),
        (csv_of([(number, *row) for number, row in enumerate(ROWS)]), "saw 3"),
        (csv_of([(*row, "") for row in ROWS]), "saw 3"),
        (csv_of([(*row, "x") for row in ROWS], "path,label,label"), "--label-column"),
        (csv_of(ROWS).replace(ROWS[3][0], f'"{ROWS[3][0]}') + 'x",cat\n', "quotation"),
    ):
        check_refusal(written(place, content), named)
    check_refusal(written(place, csv_of(ROWS)), "'labels'", label_column="labels")
    check_refusal(
        written(place, csv_of([*ROWS, ("none.png", "cat")])),
        "none.png",
        skip_broken=False,
    )
    tables: tuple[tuple[Any, str, str | None], ...] = (
        ([0.5] * 12, "0.5", None),
        ([[1, 2]] * 12, "label", None),
        ([None, "a"] * 6, "row 1", None),
        ([["a", "b"]] * 12, "--label-separator", ";"),
        ([1, 2] * 6, "two labels with ';'", ";"),
    )
    for labels, named, separator in tables:
        pandas.DataFrame(
            {"path": [path for path, _ in ROWS], "label": labels}
        ).to_parquet(place / "b.parquet")
        check_refusal(place / "b.parquet", named, label_separator=separator)
    check_refusal(written(place, b"PAR1 and no more", "c.parquet"), "c.parquet")
    make_dataset(place, datasets.ClassLabel(names=["a", "b"]), [0, 1] * 6).to_parquet(
        place / "d.parquet"
    )
    check_refusal(place / "d.parquet", "save_to_disk")


# Several labels of an image.

SEVERAL = ["cat;dog", "dog", "", "cat; emu ", "dog;cat", "emu"] * 2


def table_of_several(place: Path) -> Path:
    return written(
        place,
        csv_of(zip([path for path, _ in ROWS], SEVERAL, strict=True)),
        "several.csv",
    )


def test_a_cell_has_the_labels_between_separators_and_an_empty_one_has_none(
    place: Path,
) -> None:
    data = table_of_several(place)
    settings = {"label_separator": ";"}
    source = find_source(config_of(data, **settings))
    assert source.class_names == ("cat", "dog", "emu")
    labels_by_name = {}
    for number, row in zip(source.train.numbers, source.train.labels, strict=True):
        name = Path(source.train.items.name(number)).name
        labels_by_name[name] = {
            source.class_names[label] for label in np.flatnonzero(row)
        }
    expected = [{label.strip() for label in cell.split(";")} - {""} for cell in SEVERAL]
    assert labels_by_name == dict(
        zip([path for path, _ in ROWS], expected, strict=True)
    )
    search = load_search_data(config_of(data, **settings))
    streamed = load_search_data(config_of(data, stream=True, workers=0, **settings))
    ((images, labels),) = streamed.train.once(100)
    assert torch.equal(images, in_memory(search.train).images)
    assert torch.equal(labels, in_memory(search.train).labels)
    # Splits are drawn at random, as NumPy permutes.
    chosen = np.sort(np.random.default_rng(0).permutation(12)[:2])
    test = in_memory(load_evaluation_data(config_of(data, **settings)).test)
    assert torch.equal(test.labels, torch.from_numpy(source.train.labels[chosen]))
    (place / "classes.txt").write_text("cat\ndog\n")
    kept = find_source(config_of(data, classes=str(place / "classes.txt"), **settings))
    assert np.array_equal(kept.train.labels, source.train.labels[:, :2])
    check_refusal(data, "','", label_separator=",")
    check_refusal(data, "--label-separator")
    for separator in ("", ";;"):
        with pytest.raises(SettingsError, match="label_separator"):
            config_of(data, label_separator=separator)


# Datasets that `datasets` has saved.


def make_dataset(
    folder: Path, label_feature: Any, labels: Any, images: Any = None
) -> Any:
    pictures = images or [
        Image.new("RGB", (8, 8), (10 * number, 0, 0)) for number in range(len(labels))
    ]
    features = datasets.Features({"image": datasets.Image(), "label": label_feature})
    return datasets.Dataset.from_dict(
        {"image": pictures, "label": labels}, features=features
    )


def test_a_class_label_keeps_its_order_and_other_labels_are_sorted(
    tmp_path: Path,
) -> None:
    label_feature = datasets.ClassLabel(names=["z", "a"])
    make_dataset(tmp_path, label_feature, [0, 1] * 8).save_to_disk(tmp_path / "a")
    make_dataset(tmp_path, datasets.Value("string"), ["z", "a"] * 8).rename_column(
        "label", "species"
    ).save_to_disk(tmp_path / "b")
    first = find_source(config_of(tmp_path / "a"))
    second = find_source(config_of(tmp_path / "b", label_column="species"))
    assert (first.class_names, second.class_names) == (("z", "a"), ("a", "z"))
    images = first.train.read()
    assert images.images[:, 0, 0, 0].tolist() == [
        *range(0, 160, 20),
        *range(10, 170, 20),
    ]
    assert images.labels.tolist() == [0] * 8 + [1] * 8
    splits = datasets.DatasetDict(
        train=make_dataset(tmp_path, label_feature, [0, 1] * 4),
        test=make_dataset(tmp_path, label_feature, [0, -1]),
    )
    splits.save_to_disk(tmp_path / "c")
    assert len(load_search_data(config_of(tmp_path / "c")).train) == 6
    check_refusal(tmp_path / "c", "number 1")


def test_saved_images_have_several_labels_by_lists_or_by_a_separator(
    tmp_path: Path,
) -> None:
    label_feature = datasets.ClassLabel(names=["b", "a"])
    make_dataset(
        tmp_path, datasets.Sequence(label_feature), [[0], [1]] * 8
    ).save_to_disk(tmp_path / "one-hot")
    check_refusal(tmp_path / "one-hot", "exactly one")
    make_dataset(
        tmp_path, datasets.Sequence(label_feature), [[0, 1], [1], [], [0]] * 5
    ).save_to_disk(tmp_path / "lists")
    make_dataset(
        tmp_path, datasets.Value("string"), ["b;a", "a", "", "b"] * 5
    ).save_to_disk(tmp_path / "texts")
    for name, classes, settings in (
        ("lists", ("b", "a"), {}),
        ("texts", ("a", "b"), {"label_separator": ";"}),
    ):
        source = find_source(config_of(tmp_path / name, **settings))
        assert source.class_names == classes
        by_name = source.train.labels[:4][:, [classes.index(name) for name in "ab"]]
        assert np.array_equal(by_name, [[1, 1], [1, 0], [0, 0], [0, 1]])
        assert len(load_search_data(config_of(tmp_path / name, **settings)).train) == 13


def test_other_splits_and_a_test_split_without_labels_are_left_out_and_named(
    tmp_path: Path,
) -> None:
    label_feature = datasets.ClassLabel(names=["a", "b"])
    split = make_dataset(tmp_path, label_feature, [0, 1] * 10)
    datasets.DatasetDict(train=split, test=split, extra=split).save_to_disk(
        tmp_path / "extra"
    )
    datasets.DatasetDict(
        train=split, test=make_dataset(tmp_path, label_feature, [-1] * 6)
    ).save_to_disk(tmp_path / "hidden")
    for name, n_test, named in (("extra", 20, "extra"), ("hidden", 4, "no labels")):
        evaluation = load_evaluation_data(config_of(tmp_path / name))
        assert evaluation.n_test == n_test
        assert any(named in fact for fact in evaluation.facts), evaluation.facts
        assert load_search_data(config_of(tmp_path / name)).facts == evaluation.facts


def test_saved_datasets_that_cannot_be_used_are_refused_by_what_is_wrong(
    tmp_path: Path,
) -> None:
    label_feature = datasets.ClassLabel(names=["a", "b"])
    parts = datasets.DatasetDict(
        train=make_dataset(tmp_path, label_feature, [0, 1]),
        holdout=make_dataset(tmp_path, label_feature, [0]),
    )
    several = make_dataset(tmp_path, datasets.Sequence(label_feature), [[0, 1], [1]])
    for case, (dataset, named) in enumerate(
        (
            (make_dataset(tmp_path, datasets.Value("float32"), [0.5, 1.0]), "0.5"),
            (make_dataset(tmp_path, label_feature, [0, None]), "number 1"),
            (
                make_dataset(tmp_path, label_feature, [0, 1]).remove_columns("image"),
                "--path-column",
            ),
            (
                make_dataset(tmp_path, label_feature, [0, 1]).remove_columns("label"),
                "--label-column",
            ),
            (parts, "'holdout'"),
        )
    ):
        dataset.save_to_disk(tmp_path / str(case))
        check_refusal(tmp_path / str(case), named)
    several.save_to_disk(tmp_path / "several")
    check_refusal(tmp_path / "several", "--label-separator", label_separator=";")
    make_dataset(tmp_path, label_feature, [0, 1]).save_to_disk(tmp_path / "broken")
    for path in (tmp_path / "broken").glob("*.arrow"):
        path.write_bytes(b"nothing")
    check_refusal(tmp_path / "broken", "broken")
    pictures = [
        {"bytes": b"no image", "path": "1.png"},
        *[Image.new("RGB", (8, 8))] * 15,
    ]
    make_dataset(tmp_path, label_feature, [0, 1] * 8, pictures).save_to_disk(
        tmp_path / "one"
    )
    with pytest.raises(DataError, match="number 0"):
        find_source(config_of(tmp_path / "one", skip_broken=False)).train.read()
    assert (
        len(find_source(config_of(tmp_path / "one", skip_broken=True)).train.read())
        == 15
    )


# Arrays.


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def npz(place: Path, **arrays: Any) -> Path:
    np.savez(place / "a.npz", **arrays)
    return place / "a.npz"


def test_arrays_have_their_usual_names_and_shapes(tmp_path: Path) -> None:
    labels = np.arange(20) % 2
    for names in (
        "train_images train_labels test_images test_labels",
        "x_train y_train x_test y_test",
        "X Y X_test Y_test",
    ):
        arrays = noise(20, 8, 8), labels, noise(4, 8, 8), labels[:4]
        data = npz(tmp_path, **dict(zip(names.split(), arrays, strict=True)))
        evaluation = load_evaluation_data(config_of(data))
        assert (len(evaluation.train), evaluation.n_test) == (20, 4)
    for shape in (
        (20, 8, 8),
        (20, 8, 8, 1),
        (20, 8, 8, 3),
        (20, 1, 8, 8),
        (20, 3, 8, 8),
        (20, 8, 8, 4),
        (20, 4, 8, 8),
    ):
        images = noise(*shape)
        pool = find_source(config_of(npz(tmp_path, images=images, labels=labels))).train
        last = (
            np.moveaxis(images, 1, 3)
            if images.ndim == 4 and shape[1] < 8
            else images.reshape(20, 8, 8, -1)
        )
        expected = np.repeat(last, 3 if last.shape[3] == 1 else 1, axis=3)[
            np.argsort(labels, kind="stable")
        ]
        assert np.array_equal(pool.read().images.permute(0, 2, 3, 1).numpy(), expected)


def test_labels_of_bytes_are_text(tmp_path: Path) -> None:
    data = npz(
        tmp_path,
        images=noise(4, 8, 8),
        labels=np.array(["é", "b", "é", "b"]).astype(object).tolist(),
    )
    coded = npz(
        tmp_path,
        images=noise(4, 8, 8),
        labels=np.char.encode(["é", "b", "é", "b"], "utf-8"),
    )
    assert (
        find_source(config_of(coded)).class_names
        == find_source(config_of(data)).class_names
        == ("b", "é")
    )


def test_other_sizes_are_resized_as_pil_resizes_a_grey_image(tmp_path: Path) -> None:
    images = noise(20, 16, 16, 4)
    source = (
        find_source(config_of(npz(tmp_path, images=images, labels=[0, 1] * 10)))
        .train.take(np.array([0]))
        .read()
    )
    for channel in range(4):
        expected = Image.fromarray(images[0, ..., channel]).resize(
            (8, 8), Image.Resampling.BILINEAR
        )
        assert np.array_equal(source.images[0, channel].numpy(), np.asarray(expected))


def test_arrays_that_cannot_be_used_are_refused_by_what_is_wrong(
    tmp_path: Path,
) -> None:
    images = noise(20, 8, 8)
    labels = np.arange(20) % 2
    for arrays, named in (
        ({"images": images}, "images and labels"),
        (
            {
                "train_images": images,
                "train_labels": labels,
                "TestX": images,
                "TestY": labels,
            },
            "x_test, y_test",
        ),
        (
            {"images": images, "labels": labels, "x_train": images, "y_train": labels},
            "no others",
        ),
        ({"extra_images": images, "extra_labels": labels}, "extra"),
        ({"images": images, "labels": labels[:16]}, "16 labels"),
        ({"images": noise(20, 8, 8, 8), "labels": labels}, "(20, 8, 8, 8)"),
        ({"images": images.astype(complex), "labels": labels}, "complex"),
        ({"images": images, "labels": labels + 0.5}, "0.5"),
        ({"images": images, "labels": np.array([{}] * 20)}, "Object arrays"),
        ({"images": images, "labels": np.arange(60).reshape(20, 3)}, "0 and 1"),
        ({"images": images, "labels": np.eye(2, dtype=int)[labels]}, "one-hot"),
    ):
        check_refusal(npz(tmp_path, **arrays), named)
    (tmp_path / "a.npz").write_bytes(
        npz(tmp_path, images=images, labels=labels).read_bytes()[:-5]
    )
    check_refusal(tmp_path / "a.npz", "a.npz")
