"""A report that cannot be written loses nothing, and says so in one line; one that is written is not too large."""

import errno
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from report_pages import check_page
from search_problems import SMALL_SETTINGS, small_data
from small_trainings import tiny_data

import hba
from hba.data import LabelledImages, SearchData
from hba.errors import ReportWarning
from hba.operations import Operation
from hba.policy.space import SearchSpace
from hba.report import write
from hba.report.samples import SAMPLES_NAME, Samples
from hba.report.write import MOST_BYTES, report_at_the_end
from hba.schedule.schedule import Schedule

ONE_EPOCH: dict[str, Any] = {**SMALL_SETTINGS, "epochs": 1}


def full_for(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """The disk is full for files of these names."""
    open_file = Path.open

    def refuse(path: Path, mode: str = "r", **further: Any) -> Any:
        if "w" in mode and any(name in path.name for name in names):
            raise OSError(errno.ENOSPC, "No space left on device")
        return open_file(path, mode, **further)

    monkeypatch.setattr(Path, "open", refuse)


@pytest.mark.parametrize(
    ("full", "said", "left"),
    [
        (["report.html"], ["no report was written: cannot write"], {SAMPLES_NAME}),
        ([SAMPLES_NAME], ["no images were kept for the report: cannot write"], {"report.html"}),
        (
            ["report.html", SAMPLES_NAME],
            ["no images were kept for the report: cannot write", "no report was written: cannot write"],
            set(),
        ),
    ],
)
def test_a_full_disk_costs_the_report_and_nothing_else(
    full: list[str], said: list[str], left: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = hba.search(small_data(), **ONE_EPOCH)
    full_for(monkeypatch, *full)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = hba.search(small_data(), out=tmp_path, **ONE_EPOCH)
    messages = [str(one.message) for one in caught if one.category is ReportWarning]
    assert len(messages) == len(said)
    for message, start in zip(messages, said, strict=True):
        assert message.startswith(start)
        assert "No space left on device" in message
        assert "\n" not in message
    assert result.finished
    assert result.schedule is not None
    assert expected.schedule is not None
    assert (hba.load_policy(tmp_path).values == expected.schedule.values).all()
    assert (result.report is None) == ("report.html" in full)
    assert {path.name for path in tmp_path.iterdir()} & {"report.html", SAMPLES_NAME} == left
    assert not list(tmp_path.glob("*.part"))


def test_an_error_that_nobody_thought_of_does_not_end_an_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any, **further: Any) -> str:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr(write, "page_of", fail)
    settings: dict[str, Any] = {"model": "wrn-10-1", "epochs": 1, "batch_size": 20, "device": "cpu", "seeds": 1}
    with pytest.warns(
        ReportWarning, match=r"^no report was written: division; all else is in .*, and nothing is lost$"
    ):
        result = hba.evaluate("digits", tiny_data(), out=tmp_path, **settings)
    assert result.report is None
    assert len(result.rows) == 2
    assert (tmp_path / "results.json").exists()


def test_images_that_cannot_be_kept_leave_a_report_without_them(tmp_path: Path) -> None:
    hba.load_policy("digits").only(0).save(tmp_path / "policy.json")

    def broken() -> Samples:
        raise OSError("image file is truncated")

    with pytest.warns(ReportWarning, match=r"^no images were kept for the report: image file is truncated; "):
        path = report_at_the_end(tmp_path, broken)
    assert path is not None
    assert check_page(path.read_text(encoding="utf-8")).attributes_of("img") == []


def test_kept_images_that_are_broken_are_told_on_the_page(tmp_path: Path) -> None:
    hba.load_policy("digits").only(0).save(tmp_path / "policy.json")
    (tmp_path / SAMPLES_NAME).write_bytes(b"no image")
    page = check_page(hba.write_report(tmp_path).read_text(encoding="utf-8"))
    assert f"{SAMPLES_NAME} cannot be read as the images of a run" in page.text


def test_a_search_without_a_folder_writes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert hba.search(small_data(), **ONE_EPOCH).report is None
    assert list(tmp_path.iterdir()) == []


def test_it_is_written_by_the_helper_that_writes_whole_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hba.load_policy("digits").only(0).save(tmp_path / "policy.json")
    hba.write_report(tmp_path)
    before = (tmp_path / "report.html").read_bytes()

    def stop(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", stop)
    with pytest.raises(KeyboardInterrupt):
        hba.write_report(tmp_path)
    assert (tmp_path / "report.html").read_bytes() == before


def schedule(epochs: int, n_operations: int, copies: int = 1) -> Schedule:
    """Of operations with long names, whose rows are drawn."""
    operations = tuple(
        Operation(f"AnOperationWithALongName{number}", same, magnitude_range=(0.0, 1.0))
        for number in range(n_operations)
    )
    space = SearchSpace(operations, copies=copies)
    values = np.random.default_rng(0).uniform(size=(epochs, space.n))
    return Schedule(space, values, spread=np.full(space.n, 0.5))


def same(images: torch.Tensor, magnitudes: torch.Tensor) -> torch.Tensor:
    return images


def test_large_images_of_many_classes_and_many_epochs_stay_below_three_megabytes(tmp_path: Path) -> None:
    images = torch.randint(0, 256, (8, 3, 512, 512), dtype=torch.uint8)
    names = [f"class {number} {'x' * 200}" for number in range(1000)]
    labels = torch.tensor([0, 300, 700, 999] * 2)
    data = SearchData("noise", tuple(names), LabelledImages(images, labels), LabelledImages(images[:1], labels[3:4]))
    long = hba.load_policy("digits").stretched(1800)
    long.save(tmp_path / "policy.json")
    lines = [f"{epoch},{1 / epoch:.6f},{2 / epoch:.6f}" for epoch in range(1, 1801)]
    (tmp_path / "metrics.csv").write_text("\n".join(["epoch,train_loss,val_loss", *lines]), encoding="utf-8")
    path = report_at_the_end(tmp_path, lambda: Samples.of(data.train, names))
    assert path is not None
    assert 100_000 < path.stat().st_size < MOST_BYTES
    page = check_page(path.read_text(encoding="utf-8"))
    assert {picture.size for picture in page.pictures()} == {(160, 160)}


@pytest.mark.usefixtures("registered")
def test_many_operations_stay_below_three_megabytes(tmp_path: Path) -> None:
    made = schedule(200, 60, copies=3)
    for operation in made.space.operations:
        hba.register_operation(operation)
    made.save(tmp_path / "policy.json")
    assert hba.write_report(tmp_path).stat().st_size < MOST_BYTES


def test_what_would_be_too_large_loses_its_images_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hba.search(small_data(), out=tmp_path, **ONE_EPOCH)
    size = (tmp_path / "report.html").stat().st_size
    monkeypatch.setattr(write, "MOST_BYTES", size - 1000)
    page = check_page(hba.write_report(tmp_path).read_text(encoding="utf-8"))
    assert page.attributes_of("img") == []
    assert "The images would make this page too large." in page.text
    monkeypatch.setattr(write, "MOST_BYTES", 1000)
    with pytest.raises(hba.HbaError, match=r"would have [\d,]+ bytes, more than 1,000; it is not written$"):
        hba.write_report(tmp_path)
    assert re.search("too large", (tmp_path / "report.html").read_text(encoding="utf-8"))
