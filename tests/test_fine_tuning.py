"""What the benchmark of fine-tuning counts: seconds and memory of programs, and the images that it takes."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark_modules import module
from PIL import Image
from pretrained_networks import MODEL

from hba.errors import SettingsError

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")

BUSY = "import time\nwhile time.process_time() < 0.6: pass"
LARGE = "kept = b'x' * 300_000_000"
BOTH = f"import subprocess, sys\nfor code in ({BUSY!r}, {LARGE!r}): subprocess.run([sys.executable, '-c', code])"


def used_by(code: str) -> Any:
    return module("fine_tuning").used_by([sys.executable, "-c", code])


def write_images(folder: Path, n_images: int) -> None:
    random = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for number in range(n_images):
            pixels = random.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number:03}.png")


def test_seconds_and_memory_are_those_of_a_program_and_of_what_it_starts() -> None:
    used = used_by(BOTH)
    assert 0.6 <= used.cpu_seconds < 5
    assert 300e6 <= used.peak_bytes < 600e6
    assert used_by("pass").peak_bytes < 300e6


def test_a_program_that_fails_is_told_with_its_last_line() -> None:
    with pytest.raises(SettingsError, match=r"failed: hba: error: no images$"):
        used_by("print('first'); print('hba: error: no images'); raise SystemExit(1)")


def test_the_first_hundred_images_of_each_class_are_taken(tmp_path: Path) -> None:
    write_images(tmp_path / "all", 103)
    fine_tuning = module("fine_tuning")
    fine_tuning.copy_first_images(tmp_path / "all", ["dog"], tmp_path / "some")
    assert sorted(path.name for path in (tmp_path / "some").rglob("*.png")) == [f"{n:03}.png" for n in range(100)]
    with pytest.raises(SettingsError, match="bird must have at least 100 images, got 0"):
        fine_tuning.copy_first_images(tmp_path / "all", ["bird"], tmp_path / "others")


def test_each_part_of_a_step_takes_time_and_stands_in_its_column(tmp_path: Path) -> None:
    fine_tuning, weights = module("fine_tuning"), tmp_path / "weights.pth"
    write_images(tmp_path / "images", 30)
    fine_tuning.write_weights(MODEL, weights)
    settings = fine_tuning.settings_of(tmp_path / "images", MODEL, weights, "all-but-head", 1)
    seconds = fine_tuning.step_seconds({**settings, "image_size": 32}, 1)
    parts = ["training step", "policy step, `exact`", "policy step, `difference`", "the same draws forward alone"]
    assert list(seconds) == parts
    assert all(one > 0 for one in seconds.values())
    planted = dict(zip(parts, (0.25, 1.5, 0.75, 0.125), strict=True))
    assert fine_tuning.step_table({"3": planted}).splitlines()[::2] == [
        f"| `--freeze` | {' | '.join(parts)} |",
        "| `3` | 0.25 | 1.50 | 0.75 | 0.12 |",
    ]
