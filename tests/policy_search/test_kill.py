"""A search that is killed at any moment goes on to exactly the same schedule."""

import multiprocessing
import os
import random
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch
from search_problems import SMALL_SETTINGS, small_data

import hba
from hba.policy_search import checkpoint

SETTINGS: dict[str, Any] = {**SMALL_SETTINGS, "epochs": 60}


def search_to_the_end(out: Path) -> None:
    # Saving after every epoch makes it likely that a kill hits a write.
    checkpoint.SAVE_EVERY_SECONDS = 0.0
    # Sums over several threads round otherwise than sums in one.
    torch.set_num_threads(1)
    hba.search(small_data(), out=out, resume=(out / "config.json").exists(), **SETTINGS)


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize("n_kills", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_kills_at_random_moments_change_nothing(n_kills: int, tmp_path: Path) -> None:
    expected = hba.search(small_data(), **SETTINGS).schedule
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["hba", "search_problems"])
    moments = random.Random(0)
    out = tmp_path / "run"
    n_killed = 0
    while n_killed < n_kills:
        process: BaseProcess = context.Process(target=search_to_the_end, args=(out,))
        process.start()
        wait_for_the_run(out, process)
        time.sleep(moments.uniform(0.05, 0.6))
        assert process.exitcode is None, "the search ended before it could be killed"
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
        n_killed += 1
    search_to_the_end(out)
    assert expected is not None
    assert (hba.load_policy(out).values == expected.values).all()
    assert not list(out.glob("*.part")), "temporary files of killed runs are cleaned up"


def wait_for_the_run(out: Path, process: BaseProcess) -> None:
    """Until the process has begun to write; its start takes longer than the search itself."""
    before = time.time()
    checkpoint = out / "checkpoint.pt"
    while process.exitcode is None and not (checkpoint.exists() and checkpoint.stat().st_mtime > before):
        time.sleep(0.01)
        assert time.time() - before < 60, "the search does not start"
