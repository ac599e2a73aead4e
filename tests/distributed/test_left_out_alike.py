"""Of images that stay in their files, each process reads its own: what one cannot read, all tell of."""

from functools import partial
from pathlib import Path
from typing import Any

from several_processes import shared_by
from small_trainings import one_operation
from streamed_folders import SMALL, write_folder

import hba
from hba.training import metrics

STREAMED: dict[str, Any] = {**SMALL, "stream": True, "workers": 0, "skip_broken": True, "epochs": 1}
BROKEN = ("cat/005.png", "dog/002.png", "dog/007.png")


def left_out(folder: Path) -> tuple[int, int]:
    """How many a search and an evaluation have left out. They are measured in small batches, of which each has some."""
    metrics.MEASURE_BATCH_SIZE = 4
    found = hba.search(folder / "train", val_size=8, **STREAMED)
    assert found.schedule is not None
    evaluated = hba.evaluate(one_operation("Invert", [[0.5]]), folder, seeds=1, **STREAMED)
    return found.schedule.provenance["skipped_images"], evaluated.skipped_images


def test_broken_images_of_all_processes_are_told(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    for split in ("train", "test"):
        write_folder(folder / split, 12)
        for name in BROKEN:
            (folder / split / name).write_bytes(b"no picture")
    assert shared_by(2, partial(left_out, folder), tmp_path / "two") == [(3, 6), (3, 6)]
