"""Numbers as labels: tables, saved datasets and Datasets, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from in_memory import config_of
from PIL import Image

from hba.data import (
    LabelledImages,
    Scale,
    SearchData,
    load_evaluation_data,
    load_search_data,
)
from hba.data.cache import Prepared
from hba.data.config import DataConfig
from hba.data.formats import find_source
from hba.data.load import dataset_source, prepare
from hba.data.look import look
from hba.errors import DataError, SettingsError

N_IMAGES = 40
NUMBERS = [0.5 * number - 3 for number in range(N_IMAGES)]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Images whose red level is twice their place in the table."""
    paths = []
    for number in range(N_IMAGES):
        paths.append(f"{number:02}.png")
        Image.new("RGB", (8, 8), (2 * number, 0, 0)).save(tmp_path / paths[-1])
    frame = pandas.DataFrame({"path": paths, "cells": NUMBERS})
    frame.to_csv(tmp_path / "images.csv", index=False)
    frame.to_parquet(tmp_path / "images.parquet")
    return tmp_path / "images.csv"


def numbers_of(images: LabelledImages, scale: Any) -> list[float]:
    return [round(number, 3) for number in scale.numbers(images.labels).tolist()]


def expected_of(images: LabelledImages) -> list[float]:
    return [NUMBERS[level // 2] for level in images.images[:, 0, 0, 0].tolist()]


@pytest.mark.parametrize("name", ["images.csv", "images.parquet"])
def test_a_column_of_numbers_is_standardized(table: Path, name: str) -> None:
    config = config_of(table.with_name(name), target="cells")
    source = find_source(config)
    assert source.class_names == ("cells",)
    assert source.scale == pytest.approx((np.mean(NUMBERS), np.std(NUMBERS)))
    assert source.train.labels.std() == pytest.approx(1)
    search = load_search_data(config)
    evaluation = load_evaluation_data(config)
    test = evaluation.test.opened()
    assert search.scale == evaluation.scale == source.scale
    parts = (search.train, search.val, test)
    for images in parts:
        assert isinstance(images, LabelledImages)
        assert numbers_of(images, source.scale) == expected_of(images)
    assert sum(map(len, parts)) == N_IMAGES
    # Every split has images of all sizes of numbers.
    assert all(
        images.labels.min() < -0.5 < 0.5 < images.labels.max() for images in parts
    )


def test_prepared_images_keep_their_numbers(table: Path, tmp_path: Path) -> None:
    prepared = prepare(table, tmp_path / "prepared", target="cells", image_size=8)
    assert isinstance(prepared, Prepared)
    before = load_search_data(config_of(table, target="cells"))
    after = load_search_data(config_of(tmp_path / "prepared"))
    assert after.scale == before.scale
    assert after.class_names == before.class_names
    assert after.train.fingerprint() == before.train.fingerprint()


def test_a_saved_dataset_has_numbers_in_a_column(table: Path) -> None:
    datasets: Any = pytest.importorskip("datasets")
    features = datasets.Features(
        {"image": datasets.Image(), "cells": datasets.Value("float32")}
    )
    paths = [str(table.with_name(f"{number:02}.png")) for number in range(N_IMAGES)]
    saved = datasets.Dataset.from_dict(
        {"image": paths, "cells": NUMBERS}, features=features
    )
    saved.save_to_disk(str(table.parent / "saved"))
    expected = load_search_data(config_of(table, target="cells"))
    search = load_search_data(config_of(table.parent / "saved", target="cells"))
    assert search.scale == pytest.approx(expected.scale)
    assert search.train.fingerprint() == expected.train.fingerprint()


@pytest.mark.parametrize("form", [float, np.float32, torch.tensor])
def test_floating_point_labels_of_a_dataset_are_numbers(form: Any) -> None:
    pairs = [
        (Image.new("RGB", (8, 8), (2 * number, 0, 0)), form(NUMBERS[number]))
        for number in range(N_IMAGES)
    ]
    config = DataConfig.make({"data": "list", "image_size": 8})
    source = dataset_source((pairs[::2], pairs[1::2]), config, None)
    assert source.scale == pytest.approx((np.mean(NUMBERS[::2]), np.std(NUMBERS[::2])))
    assert source.test is not None
    for pool in (source.train, source.test()):
        images = pool.read()
        assert numbers_of(images, source.scale) == expected_of(images)
    with pytest.raises(DataError, match="all floating point"):
        dataset_source([*pairs, (pairs[0][0], 3)], config, None)


def test_numbers_of_a_dataset_keep_their_precision() -> None:
    image = Image.new("RGB", (8, 8))
    config = DataConfig.make({"data": "list", "image_size": 8})
    times = [1.7e9 + second for second in range(50)]
    source = dataset_source([(image, time) for time in times], config, None)
    assert source.scale.std == pytest.approx(np.std(times))
    expected = (np.arange(50) - 24.5) / np.std(times)
    assert source.train.labels == pytest.approx(expected, abs=1e-6)
    with pytest.raises(DataError, match="two different"):
        dataset_source([(image, 3.0)] * 4, config, None)
    with pytest.raises(DataError, match="one kind"):
        dataset_source(([(image, 1.0), (image, 2.0)], [(image, 1)]), config, None)


def test_counts_of_which_few_are_rare_are_split(table: Path) -> None:
    frame = pandas.read_csv(table)
    frame["cells"] = [0] * 25 + [1] + [2] * 14
    frame.to_csv(table, index=False)
    search = load_search_data(config_of(table, target="cells"))
    assert len(search.train) + len(search.val) == 32
    for images in (search.train, search.val):
        assert isinstance(images, LabelledImages)
        assert len(images.labels.unique()) > 1


def test_numbers_are_shown_to_a_hundredth_of_their_deviation() -> None:
    for std, number, text in (
        (20.0, 4.799e-07, "0"),
        (20.0, 21.04, "21"),
        (12.0, -48.339, "-48.3"),
        (15_000.0, 452_318.4, "452318"),
        (0.05, 1.23456, "1.2346"),
    ):
        assert Scale(0.0, std).text(number) == text


def test_a_look_says_the_range(table: Path) -> None:
    summary = look(config_of(table, target="cells"))
    assert summary.numbers == pytest.approx((-3, 16.5))
    assert "from -3 to 16.5" in summary.sentences[0]


REFUSED: dict[str, tuple[dict[str, Any], Any]] = {
    "row 5": ({"target": "cells"}, "many"),
    "row 6": ({"target": "cells"}, float("inf")),
    "label_separator": ({"target": "cells", "label_separator": ";"}, 1),
    "classes": ({"target": "cells", "classes": "imagenet-120"}, 1),
    "'cell'": ({"target": "cell"}, 1),
    "two different": ({"target": "same"}, 1),
}


@pytest.mark.parametrize("named", REFUSED)
def test_what_is_no_number_is_refused(table: Path, named: str) -> None:
    settings, value = REFUSED[named]
    frame = pandas.read_csv(table)
    frame["same"] = 4
    if named.startswith("row"):
        frame["cells"] = frame["cells"].astype(object)
        frame.loc[int(named[-1]) - 2, "cells"] = value
    frame.to_csv(table, index=False)
    with pytest.raises((DataError, SettingsError)) as raised:
        find_source(config_of(table, **settings))
    assert named in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_numbers_in_memory_must_be_finite_and_have_one_name() -> None:
    images = torch.zeros(4, 3, 8, 8, dtype=torch.uint8)
    numbers = torch.tensor([0.0, 1.0, -1.0, 0.5])
    with pytest.raises(DataError, match="finite"):
        LabelledImages(images, numbers.log())
    part = LabelledImages(images, numbers)
    assert (
        SearchData("four", ("cells",), part, part).train.labels.dtype == torch.float32
    )
    with pytest.raises(DataError, match="one name"):
        SearchData("four", ("a", "b"), part, part)
