"""The processes that read images ahead: how far, with how much memory, and that they end."""

import contextlib
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from streamed_folders import passes, pool_in, streamed, write_folder

from hba.data.batches import BatchStream
from hba.data.streaming import StreamedImages
from hba.errors import DataError


def test_closing_ends_the_processes(tmp_path: Path) -> None:
    data = streamed(write_folder(tmp_path, 10), 2)
    passes(BatchStream(data, 2, seed=0), 3)
    moved = data.to(torch.device("cpu"))
    next(moved.once(2))
    reading = moved.once(2)
    next(reading)
    assert len(multiprocessing.active_children()) >= 2
    data.close()
    assert multiprocessing.active_children() == []


@pytest.mark.skipif(os.name != "posix", reason="needs SIGINT")
def test_interrupted_processes_read_on_until_the_main_one_ends_them(tmp_path: Path) -> None:
    # Ctrl-C in a terminal reaches all processes; a search ends its step, and saves, before it stops.
    data = streamed(write_folder(tmp_path, 40), 2)
    reading = data.batches(torch.arange(80), 4)
    for _ in range(6):
        next(reading)
    for process in multiprocessing.active_children():
        os.kill(process.pid or 0, signal.SIGINT)
    time.sleep(0.2)
    assert len(list(reading)) == 14


def test_no_more_batches_are_read_ahead_than_two_for_each_process(tmp_path: Path) -> None:
    write_folder(tmp_path, 40)
    data = streamed(tmp_path, 2)
    reading = data.batches(torch.arange(80), 4)
    next(reading)
    # Access times are not kept everywhere; what is not read yet can be broken without harm.
    time.sleep(0.5)
    for path in sorted(tmp_path.rglob("*.png"))[4 * (1 + 2 * 2 + 1) :]:
        path.write_bytes(b"no image")
    for _ in range(2 * 2 + 1):
        next(reading)
    with pytest.raises(DataError, match="cannot read the image"):
        next(reading)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_memory_does_not_grow_with_the_passes(tmp_path: Path) -> None:
    pool = pool_in(write_folder(tmp_path, 40))
    # A pass is 80 images of 3 x 128 x 128 bytes, 4 MB.
    stream = BatchStream(StreamedImages.of(pool, np.arange(80), 128, workers=0), 8, seed=0)
    passes(stream, 20)
    before = resident_bytes()
    for _ in range(100):
        stream.next()
    # Ten passes kept would be 40 MB, and 160 MB as floats.
    assert resident_bytes() - before < 20e6


SCRIPT = """
import sys
import hba
class Tell(hba.SearchCallback):
    def step_done(self, step):
        print(step, flush=True)
settings = dict(model="wrn-10-1", epochs=100000, batch_size=8, device="cpu", image_size=8)
hba.search(sys.argv[1], stream=True, workers=2, callback=Tell(), **settings)
"""


def children_of(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        # Threads come and go.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found += map(int, (task / "children").read_text().split())
    return found


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def search(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """An endless search that has done three steps, and its reading processes."""
    write_folder(tmp_path, 24)
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    for _ in range(3):
        process.stdout.readline()
    deadline = time.time() + 30
    while not (readers := children_of(process.pid)):
        assert time.time() < deadline
    yield process, readers
    process.kill()
    process.wait()


def end_of(process: subprocess.Popen[str], readers: list[int]) -> str:
    """What it wrote as errors, once all its processes have ended."""
    _, errors = process.communicate(timeout=60)
    deadline = time.time() + 30
    while any(map(is_running, readers)):
        assert time.time() < deadline, "a reading process outlived the run"
        time.sleep(0.05)
    return errors


NEEDS_PROC = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc")


@NEEDS_PROC
def test_processes_end_with_ctrl_c_without_a_word_of_their_own(
    search: tuple[subprocess.Popen[str], list[int]],
) -> None:
    process, readers = search
    # As a terminal does it: to all of the group.
    os.killpg(process.pid, signal.SIGINT)
    errors = end_of(process, readers)
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert errors.count("Traceback") == 1, errors


@NEEDS_PROC
def test_processes_end_when_the_main_one_is_killed(search: tuple[subprocess.Popen[str], list[int]]) -> None:
    process, readers = search
    process.kill()
    end_of(process, readers)


@NEEDS_PROC
def test_a_process_that_dies_is_one_line_with_a_remedy(search: tuple[subprocess.Popen[str], list[int]]) -> None:
    process, readers = search
    deadline = time.time() + 30
    while process.poll() is None:
        assert time.time() < deadline
        for reader in children_of(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(reader, signal.SIGKILL)
        time.sleep(0.05)
    # Behind it Python may tell of threads that it could not end.
    lines = end_of(process, readers).splitlines()
    (last_line,) = [line for line in lines if line.startswith("hba.errors.RunError: ")]
    assert last_line.startswith("hba.errors.RunError: a process that reads images has died (")
    assert last_line.endswith("; try fewer workers, 0 reads without any")
