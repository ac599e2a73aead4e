"""The example is a program of its own: it must run as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule

EXAMPLE = Path(__file__).parents[1] / "examples" / "train_digits.py"


def run_example(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLE), *arguments], capture_output=True, text=True, timeout=120, check=False, cwd=folder
    )


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
