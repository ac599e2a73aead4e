"""Processes side by side: what they are told, and that none is left."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest
import torch
import torch.multiprocessing
from torch import Tensor

from hba.utils.pool import ProcessPool

_TOLD: list[Tensor] = []


@pytest.fixture(autouse=True)
def begun_as_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessPool, "context", torch.multiprocessing.get_context("spawn"))


def begin(tensor: Tensor) -> None:
    _TOLD.append(tensor)


def add_to_the_shared_one(number: int) -> int:
    _TOLD[0][number] += 1
    return torch.get_num_threads()


def die(number: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_each_process_begins_once_and_shares_tensors() -> None:
    # Other tests of this process may have pools that idle.
    before = multiprocessing.active_children()
    shared = torch.zeros(4).share_memory_()
    with ProcessPool(2, 3, begin, shared) as pool:
        assert [future.result() for future in pool.submit(add_to_the_shared_one, range(4))] == [3] * 4
    assert shared.tolist() == [1.0] * 4
    assert set(multiprocessing.active_children()) <= set(before)


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_process_that_dies_is_told_by_its_exit_code() -> None:
    before = multiprocessing.active_children()
    with ProcessPool(2, 1) as pool:
        (future,) = pool.submit(die, [0])
        with pytest.raises(BrokenProcessPool):
            future.result()
        assert pool.exit_code() == -signal.SIGKILL
    assert set(multiprocessing.active_children()) <= set(before)


SCRIPT = """
import os, time
from pathlib import Path
from hba.utils.pool import ProcessPool

def note(folder):
    Path(folder, str(os.getpid())).touch()
    time.sleep(600)

if __name__ == "__main__":
    with ProcessPool(1, 1) as pool:
        pool.submit(note, [{folder!r}])[0].result()
"""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path("/proc", str(pid), "stat")
    # A process that nobody has waited for is dead too.
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def until(condition: object, seconds: float = 240) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_processes_end_when_the_one_that_started_them_is_killed(tmp_path: Path) -> None:
    (tmp_path / "pids").mkdir()
    (tmp_path / "script.py").write_text(SCRIPT.format(folder=str(tmp_path / "pids")), encoding="utf-8")
    parent = subprocess.Popen([sys.executable, str(tmp_path / "script.py")])
    until(lambda: list((tmp_path / "pids").iterdir()))
    (pid,) = (int(path.name) for path in (tmp_path / "pids").iterdir())
    assert is_alive(pid)
    parent.kill()
    parent.wait()
    until(lambda: not is_alive(pid))
