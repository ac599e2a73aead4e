"""benchmarks/quality: beds by name, how they are chosen, and that what belongs to one is never mixed with another's."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmark_modules import module
from click.testing import CliRunner, Result
from PIL import Image

from hba.data import LabelledImages
from hba.errors import DataError, SettingsError

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")

OF_DIGITS, OF_CIFAR = ("digits", "digits-shifted"), ("cifar", "cifar-shifted", "cifar-grey")
SMALL = {"train_size": 8, "val_size": 6, "image_size": 8}
"""Of the folder below."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """16 training images and 8 test images of two classes."""
    rng = np.random.default_rng(0)
    for part, n_images in (("train", 8), ("test", 4)):
        for name in ("cat", "dog"):
            path = tmp_path / "copy" / part / name
            path.mkdir(parents=True)
            for number in range(n_images):
                pixels = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(path / f"{number}.png")
    return tmp_path / "copy"


def bed_of(name: str, folder: Path) -> Any:
    """As it is, but for a few images."""
    bed = module("quality.beds").find_bed(name, str(folder))
    view = dataclasses.replace(bed.view, test_size=4)
    return dataclasses.replace(bed, view=view, settings={**bed.settings, **SMALL})


def parts_of(bed: Any) -> dict[str, LabelledImages]:
    """The images of its searches, and of its trainings that are measured on the test split."""
    tasks, default = module("quality.tasks"), module("quality.candidates").DEFAULT
    search = bed.search(default, 0, device="cpu")
    tested = tasks.row_task("none", search, tested=True).data
    retrained = tasks.row_task("none", search, tested=False).data
    assert torch.equal(retrained.train.images, search.data.train.images)
    assert torch.equal(retrained.test.images, search.data.val.images)
    return {"search": search.data.train, "training": tested.train, "val": search.data.val, "test": tested.test}


def test_a_shift_leaves_training_images_alone_and_is_the_same_for_every_seed(folder: Path) -> None:
    plain, shifted, again = (parts_of(bed_of(name, folder)) for name in ("cifar", "cifar-shifted", "cifar-shifted"))
    for part in ("search", "training"):
        assert torch.equal(plain[part].images, shifted[part].images)
    for part in ("val", "test"):
        assert (plain[part].images != shifted[part].images).flatten(1).any(1).all()
        assert torch.equal(plain[part].labels, shifted[part].labels)
        assert torch.equal(shifted[part].images, again[part].images)
    bed, default = bed_of("cifar-shifted", folder), module("quality.candidates").DEFAULT
    other_seed = bed.search(default, 1005, device="cpu").data
    assert torch.equal(other_seed.val.images, shifted["val"].images)


def test_test_images_are_a_stratified_part_and_always_the_same(folder: Path) -> None:
    first, again = (parts_of(bed_of("cifar", folder))["test"] for _ in range(2))
    assert first.labels.bincount().tolist() == [2, 2]
    assert torch.equal(first.images, again.images)
    bed = bed_of("cifar", folder)
    with pytest.raises(DataError, match="takes 9 test images, but there are 8"):
        parts_of(dataclasses.replace(bed, view=dataclasses.replace(bed.view, test_size=9)))


def test_grey_images_have_three_equal_channels_of_pils_luma(folder: Path) -> None:
    colored, grey = (parts_of(bed_of(name, folder)) for name in ("cifar", "cifar-grey"))
    for part, images in grey.items():
        luma = [
            np.asarray(Image.fromarray(image.permute(1, 2, 0).numpy()).convert("L")) for image in colored[part].images
        ]
        for channel in range(3):
            difference = images.images[:, channel].int() - torch.from_numpy(np.stack(luma)).int()
            assert difference.abs().max() <= 1


def test_beds_have_the_settings_that_are_said_of_them(folder: Path) -> None:
    beds, default = module("quality.beds"), module("quality.candidates").DEFAULT
    for name in (*OF_DIGITS, *OF_CIFAR):
        config = beds.find_bed(name, str(folder) if name in OF_CIFAR else None).config(default, 7)
        assert (config.model, config.batch_size, config.learning_rate) == ("wrn-10-1", 100, 0.1)
        assert (config.side, config.weight_decay, config.seed) == (16, 0.0005, 7)
        baseline = config.baseline_augmentation()
        is_flipped = name in ("cifar", "cifar-shifted")
        assert (baseline.flip, baseline.crop_padding, baseline.cutout_size) == (is_flipped, 2 * is_flipped, 0)
        sizes = (1000, 2000, 120) if name in OF_CIFAR else (200, 500, 300)
        assert (config.train_size, config.val_size, config.epochs) == sizes
    small = beds.find_bed("cifar10-small", str(folder)).config(default, 0)
    assert (small.baseline_augmentation().cutout_size, small.weight_decay, small.learning_rate) == (8, 0.005, 0.05)


def test_the_folder_of_a_bed_is_told_or_found_and_a_mistake_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beds = module("quality.beds")
    monkeypatch.delenv("HBA_DATA", raising=False)
    for name, data, error, message in (
        ("cifar", None, DataError, "the bed cifar needs the folder of its images: give --data DIR, or set HBA_DATA"),
        ("cifar", "nowhere", DataError, "no such folder of images: nowhere"),
        ("digits", str(folder), DataError, "the bed digits has images of its own; omit --data"),
        ("digit", None, SettingsError, "unknown bed 'digit'; known: digits, digits-shifted, cifar"),
    ):
        with pytest.raises(error, match=message):
            beds.find_bed(name, data)
    folder.rename(folder.with_name("cifar10-jpeg"))
    monkeypatch.setenv("HBA_DATA", str(folder.parent))
    assert beds.find_bed("cifar").data == str(folder.with_name("cifar10-jpeg"))


def test_runs_of_different_beds_are_never_the_same_run(folder: Path) -> None:
    tasks, default = module("quality.tasks"), module("quality.candidates").DEFAULT
    beds = [module("quality.beds").find_bed(name, str(folder)) for name in OF_CIFAR]
    searches = [bed.search(default, 0) for bed in beds]
    rows = [tasks.row_task(row, search, tested=tested) for search in searches for row in ("none", "randaugment")
            for tested in (True, False)]  # fmt: skip
    planted = [tasks.planted(search, "rotated") for search in searches]
    for group in (searches, rows, planted):
        assert len({task.run.digest for task in group}) == len(group)
    for task in (*searches, *rows, *planted):
        assert task.run.dataset == task.run.further["bed"]
        assert task.run.further["images"]["test_size"] == 5000
    # What a bed does to images decides too, under one name.
    changed = dataclasses.replace(beds[0], view=beds[1].view).search(default, 0)
    assert changed.run.digest not in {search.run.digest for search in searches}


def test_a_bed_that_was_changed_is_compared_with_nothing_of_before() -> None:
    records, kept = module("common.records"), module("quality.kept")

    def record(row: str, seed: int, images: Any, **settings: Any) -> Any:
        further = {"bed": "cifar", "images": images, "training_images": 1000}
        return records.Record(records.Run(row, "cifar", {"epochs": 9, **settings}, seed, further), {}, {})

    whole, part = {"test_size": 5000}, {"test_size": 100}
    first, others = record("none", 0, whole), [record("none", 0, part), record("none", 1000, whole)]
    later = record("none", 0, whole, batch_size=7)
    same = [record("randaugment", 1, whole), record("paper", 3, whole, algorithm="hba", sigma=0.5)]
    groups = kept.grouped([first, *others, later, *same])
    assert [first, *same] in groups
    assert len(groups) == 4


def test_a_planted_problem_is_planted_in_what_the_bed_shows(folder: Path) -> None:
    tasks, default = module("quality.tasks"), module("quality.candidates").DEFAULT
    search = bed_of("cifar-grey", folder).search(default, 0, device="cpu")
    planted = tasks.planted(search, "inverted").data
    assert torch.equal(planted.val.images, 255 - search.data.val.images)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(module("search_quality").main, list(arguments), catch_exceptions=False)


def test_beds_are_chosen_by_trainings_on_validation_images_without_a_search(tmp_path: Path) -> None:
    work, results = tmp_path / "work", tmp_path / "results"
    found = run(
        *("choose-beds", "--beds", "digits-shifted,digits", "--seeds", "2", "--epochs", "1", "--jobs", "1"),
        *("--work", str(work), "--results", str(results)),
    )
    assert found.exit_code == 0, found.output
    assert "8 of 8 runs to do" in found.output
    assert not work.exists()
    assert [path.name for path in results.iterdir()] == ["trainings.jsonl"]
    kept = [json.loads(line) for line in (results / "trainings.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {line["name"] for line in kept} == {"none", "randaugment"}
    errors = {(line["name"], line["dataset"], line["seed"]): line["results"]["val_error_percent"] for line in kept}
    rows = {
        line.split(" | ")[0]: line.split(" | ") for line in found.output.splitlines() if line.startswith("| digits")
    }
    for bed in OF_DIGITS:
        distance = np.mean([errors["none", bed, seed] - errors["randaugment", bed, seed] for seed in (0, 1)])
        assert rows[f"| {bed}"][5].startswith(f"{distance:+.2f}")
    module("quality.page").write_page(results, tmp_path)
    page = (tmp_path / "search-quality.md").read_text(encoding="utf-8")
    assert "search_quality.py choose-beds --beds digits,digits-shifted --data DIR --seeds 2`" in page
    beds = page.split("\n## Beds\n")[1].split("\n## ")[0]
    assert all("\n" + " | ".join(row) + "\n" in beds for row in rows.values())
    trained = page.split("\n## Fresh networks")[1].split("\n## ")[0]
    assert "Not run." in trained, "no schedule was tried there"


def test_a_bed_without_both_trainings_is_in_no_table(tmp_path: Path) -> None:
    records, table = module("common.records"), module("quality.bed_table")
    runs = [
        records.Record(
            records.Run("none", "digits", {"epochs": 3}, seed, {"training_epochs": 3}), {"val_error_percent": 5.0}, {}
        )
        for seed in range(2)
    ]
    assert table.of_range(runs) == []
