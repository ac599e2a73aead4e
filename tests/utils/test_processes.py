"""Processes on machines with a long TMPDIR, and without shared memory."""

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hba.errors import SettingsError
from hba.policy.player import SharedNumber
from hba.utils.processes import check_can_start

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")

BIND = """
from multiprocessing.connection import Listener
from hba.utils.processes import obstacle
assert obstacle() is None, obstacle()
Listener(family="AF_UNIX").close()
"""


def test_sockets_of_processes_fit_with_a_long_tmpdir(tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 60) / ("d" * 60)
    folder.mkdir(parents=True)
    subprocess.run(
        [sys.executable, "-c", BIND],
        env={**os.environ, "TMPDIR": str(folder)},
        check=True,
    )
    assert not [*folder.iterdir()]


def check_without_files() -> None:
    """Nothing can be written into a file, and shared memory consists of files."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    number = SharedNumber(2)
    number.value = 0.5
    assert number.value == 0.5
    with pytest.raises(SettingsError, match=r"/dev/shm.*jobs=1"):
        check_can_start("use jobs=1")


def test_without_shared_memory_numbers_work_and_processes_are_refused() -> None:
    process = multiprocessing.get_context("fork").Process(target=check_without_files)
    process.start()
    process.join()
    assert process.exitcode == 0
