"""`torchrun -m hba search`: several processes make one run, which any number of
processes resumes.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import run

SEARCH = ("search", "digits", "--space", "hba", "--image-size", "8", "--device", "cpu")


def start(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    """Two processes that torchrun starts in `folder`."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return subprocess.Popen(
        [sys.executable, *launcher, "-m", "hba", *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, errors = process.communicate(timeout=280)
    return process.returncode, out, errors


def wait_for(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 200
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.1)


def values(folder: Path) -> list[list[float]]:
    rows: list[list[float]] = json.loads(
        (folder / "policy.json").read_text(encoding="utf-8")
    )["values"]
    return rows


def rows_of(folder: Path) -> int:
    metrics = folder / "metrics.csv"
    return (
        len(metrics.read_text(encoding="utf-8").splitlines()) if metrics.exists() else 0
    )


@pytest.mark.slow
def test_two_processes_make_one_run_and_one_evaluation(tmp_path: Path) -> None:
    code, out, errors = finish(
        start(*SEARCH, "--epochs", "3", "--train-steps", "2", folder=tmp_path)
    )
    assert code == 0, errors
    assert out.count("shared by 2 processes; in runs/digits-1") == 1
    assert out.count("Schedule: runs/digits-1/policy.json") == 1
    folder = tmp_path / "runs" / "digits-1"
    before = values(folder)
    # One process loads the checkpoint of two.
    assert "3 epochs (3 done)" in run("search", "--out", str(folder), "--resume").output
    assert values(folder) == before
    words = (
        "evaluate",
        "digits",
        "--epochs",
        "2",
        "--image-size",
        "8",
        "--device",
        "cpu",
        "--out",
        "compared",
    )
    code, out, errors = finish(
        start(*words, "--seeds", "1", "--against", "none", folder=tmp_path)
    )
    assert code == 0, errors
    results = json.loads(
        (tmp_path / "compared" / "results.json").read_text(encoding="utf-8")
    )
    assert (results["n_processes"], [row["seeds"] for row in results["rows"]]) == (
        2,
        [[0], [0]],
    )
    assert [row["wrong"] for row in results["rows"]] == [
        [None],
        [None],
    ], "each process measures half of the images"


@pytest.mark.slow
def test_a_killed_run_is_resumed_to_the_same(tmp_path: Path) -> None:
    words = (*SEARCH, "--epochs", "60")
    assert finish(start(*words, "--out", "undisturbed", folder=tmp_path))[0] == 0
    killed = start(*words, "--out", "killed", folder=tmp_path)
    wait_for(lambda: rows_of(tmp_path / "killed") > 5)
    os.kill(_process_of(killed.pid, rank=1), signal.SIGKILL)
    code, out, errors = finish(killed)
    assert code != 0
    code, out, errors = finish(
        start("search", "--out", "killed", "--resume", folder=tmp_path)
    )
    assert code == 0, errors
    assert " done), each of" in out
    assert values(tmp_path / "killed") == values(tmp_path / "undisturbed")


def _process_of(launcher: int, rank: int) -> int:
    """Among the launcher's children."""
    for folder in Path("/proc").iterdir():
        is_child = folder.name.isdigit() and _parent(folder) == launcher
        if is_child and f"RANK={rank}" in (folder / "environ").read_text(
            encoding="utf-8"
        ).split("\0"):
            return int(folder.name)
    raise AssertionError("no such process")


def _parent(process: Path) -> int | None:
    try:
        return int(
            (process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1]
        )
    except OSError:
        return None
