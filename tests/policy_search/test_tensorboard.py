"""TensorBoard events, read again by TensorBoard's own reader, are what the files of the run say."""

import csv
import io
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from search_problems import SMALL_SETTINGS, StopAfter, small_data

import hba
from hba.errors import ReportWarning, SettingsError
from hba.utils.progress import CallbackList

pytest.importorskip("tensorboard", reason="needs pip install '.[tensorboard]'")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

SETTINGS: dict[str, Any] = {**SMALL_SETTINGS, "epochs": 4, "validate_every": 2}


def events_of(folder: Path) -> EventAccumulator:
    return EventAccumulator(str(folder), size_guidance={"scalars": 0, "images": 0}).Reload()


def scalars(events: EventAccumulator, tag: str) -> dict[int, float]:
    return {event.step: event.value for event in events.Scalars(tag)}


def check_against_files(folder: Path, events: EventAccumulator) -> None:
    with (folder / "metrics.csv").open(encoding="utf-8") as file:
        for name in ("train_loss", "val_loss", "train_error_percent", "val_error_percent"):
            file.seek(0)
            expected = {int(row["epoch"]): float(row[name]) for row in csv.DictReader(file) if row[name]}
            assert scalars(events, f"search/{name}") == pytest.approx(expected, rel=1e-4), name
    schedule = hba.load_policy(folder)
    for column, name in enumerate(schedule.space.names):
        owner, kind = name.rsplit(".", 1)
        expected = dict(enumerate(schedule.values[:, column].tolist(), start=1))
        assert scalars(events, f"{kind}/{owner}") == pytest.approx(expected, rel=1e-5, abs=1e-6), name


def test_scalars_are_those_of_the_files_and_the_grid_that_of_the_images(tmp_path: Path) -> None:
    hba.search(small_data(), out=tmp_path, callback=hba.TensorBoardLogger(tmp_path / "events"), **SETTINGS)
    events = events_of(tmp_path / "events")
    check_against_files(tmp_path, events)
    (image,) = events.Images("augmented")
    assert image.step == 4
    with Image.open(io.BytesIO(image.encoded_image_string)) as picture:
        # Cells of 8 pixels with borders of 2: a column as it is, three for each of three epochs, a row for each image.
        assert picture.size == (10 * 10 + 2, 4 * 10 + 2)


def test_a_resumed_search_has_each_epoch_once(tmp_path: Path) -> None:
    logger = hba.TensorBoardLogger(tmp_path / "events")
    both: Any = CallbackList(logger, StopAfter(7))
    hba.search(small_data(), out=tmp_path, callback=both, **SETTINGS)
    hba.search(small_data(), out=tmp_path, resume=True, callback=hba.TensorBoardLogger(tmp_path / "events"))
    events = events_of(tmp_path / "events")
    assert [event.step for event in events.Scalars("search/train_loss")] == [1, 2, 3, 4]
    check_against_files(tmp_path, events)


def test_what_cannot_be_written_is_told_once_and_ends_nothing(tmp_path: Path) -> None:
    logger = hba.TensorBoardLogger(tmp_path / "events")

    def full(*arguments: Any, **further: Any) -> None:
        raise OSError(28, "No space left on device")

    logger._events._open = full
    with pytest.warns(ReportWarning, match="No space left on device; the search goes on") as caught:
        result = hba.search(small_data(), callback=logger, **SETTINGS)
    assert result.finished
    assert len(caught) == 1


def test_without_tensorboard_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(SettingsError, match=r"pip install 'hba-augment\[tensorboard\]'"):
        hba.TensorBoardLogger(tmp_path)
