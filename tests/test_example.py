"""The examples are programs of their own: they must run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule

CHECKOUT = Path(__file__).parents[1]


def run_example(folder: Path, *arguments: str, name: str = "train_digits.py") -> subprocess.CompletedProcess[str]:
    program = [sys.executable, str(CHECKOUT / "examples" / name), *arguments]
    return subprocess.run(program, capture_output=True, text=True, timeout=120, check=False, cwd=folder)


def error_printed_by(done: subprocess.CompletedProcess[str], name: str) -> float:
    assert done.returncode == 0, done.stderr
    (found,) = re.findall(rf"^test error with {re.escape(name)}: (\d+\.\d\d) %\n\Z", done.stdout)
    return float(found)


def test_two_epochs_with_the_shipped_schedule_learn_something(tmp_path: Path) -> None:
    done = run_example(tmp_path, "--epochs", "2")
    # Guessing is wrong for nine digits of ten.
    assert 0 < error_printed_by(done, "digits") < 75
    assert list(tmp_path.iterdir()) == []


def test_a_schedule_file_is_followed_from_its_first_row(tmp_path: Path) -> None:
    space = SearchSpace()
    Schedule(space, np.array(space.ranges).T).save(tmp_path / "runs" / "growing.json")
    growing = error_printed_by(run_example(tmp_path, "runs/growing.json", "--epochs", "1"), "runs/growing.json")
    # The first row does nothing, the last, which a policy takes unless told otherwise, does everything always.
    assert growing == error_printed_by(run_example(tmp_path, "none", "--epochs", "1"), "none")


def test_the_picture_of_the_readme_can_be_drawn_again(tmp_path: Path) -> None:
    done = run_example(tmp_path, "overview.png", name="draw_overview.py")
    # Some versions of matplotlib log it when they look for the machine's fonts for the first time.
    said = [line for line in done.stderr.splitlines() if "matplotlib.font_manager" not in line]
    assert (done.returncode, said) == (0, [])
    # Its fonts may differ between machines, and so do the heights of its lines.
    with Image.open(tmp_path / "overview.png") as drawn, Image.open(CHECKOUT / "docs" / "overview.png") as kept:
        assert drawn.width == kept.width
        assert abs(drawn.height - kept.height) < 0.05 * kept.height
    assert (CHECKOUT / "docs" / "overview.png").stat().st_size < 300_000
