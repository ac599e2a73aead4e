"""Forks of a search side by side: the same bits as one after the other, also of a
search that was stopped or killed.
"""

import json
import os
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ray_machines import Machines
from search_problems import StopAfter, WithDropout, small_data

import hba
from hba.errors import SettingsError
from hba.operations import OPERATIONS, STAGED
from hba.policy.space import SearchSpace
from hba.utils.files import load_tensors

SPACE = SearchSpace(
    (STAGED["VerticalFlip"], STAGED["Erase"], STAGED["Mixup"], OPERATIONS["Invert"]),
    1,
    (0.5, 0.5),
)
SETTINGS: dict[str, Any] = {
    "algorithm": "race",
    "smaller": 1,
    "epochs": 4,
    "batch_size": 8,
    "learning_rate": 1e-4,
    "device": "cpu",
}
KILLED = """
import sys, torch, hba
import test_forks
if __name__ == "__main__":
    torch.get_num_threads = lambda: 2
    test_forks.search(sys.argv[1], jobs=2)
"""


def search(out: str | Path | None = None, **options: Any) -> hba.SearchResult:
    """With dropout, which draws from PyTorch's default generator."""
    torch.manual_seed(0)
    settings = {} if options.get("resume") else SETTINGS
    return hba.search(
        small_data(), network=WithDropout(), space=SPACE, out=out, **settings, **options
    )


@cache
def whole() -> hba.SearchResult:
    return search()


def forks_in(folder: Path) -> dict[str, Any]:
    forks: dict[str, Any] = json.loads((folder / "policy.json").read_text())[
        "provenance"
    ]["forks"]
    return forks


def has_forks(checkpoint: Path) -> bool:
    return checkpoint.exists() and bool(
        load_tensors(checkpoint)["state"]["search"]["ended"][1:].any()
    )


def assert_whole(result: hba.SearchResult) -> None:
    assert result.finished
    assert result.schedule is not None
    assert whole().schedule is not None
    assert np.array_equal(result.schedule.values, whole().schedule.values)  # type: ignore[union-attr]
    for name in ("forks", "symmetries", "val_loss"):
        assert result.schedule.provenance[name] == whole().schedule.provenance[name]  # type: ignore[union-attr]
    rows = [
        [{**row, "seconds": 0} for row in result.metrics]
        for result in (result, whole())
    ]
    assert rows[0] == rows[1]
    for parameter, other in zip(
        result.network.parameters(), whole().network.parameters(), strict=True
    ):
        assert torch.equal(parameter, other)


class Steps(hba.SearchCallback):
    """Counts steps, and asks for a stop after an epoch."""

    def __init__(self, last_epoch: int) -> None:
        self.last_epoch = last_epoch
        self.steps = list[int]()
        self.epoch = 0

    def started(
        self, step: int, total_steps: int, batch_size: int, n_epochs: int
    ) -> None:
        self.steps.append(step)
        self.total_steps = total_steps

    def step_done(self, step: int) -> None:
        self.steps.append(step)

    def epoch_done(self, metrics: Any) -> None:
        self.epoch = max(self.epoch, int(metrics["epoch"]))

    def stop_requested(self) -> bool:
        return self.epoch >= self.last_epoch


@pytest.mark.slow
@pytest.mark.usefixtures("no_process_is_left")
def test_a_stopped_search_goes_on_to_the_bits_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    # In the middle of the first fork, in this process.
    assert not search(tmp_path, callback=StopAfter(5)).finished
    assert not search(
        tmp_path, resume=True, jobs=None, callback=Steps(last_epoch=2)
    ).finished
    assert 1 <= len(forks_in(tmp_path)) < len(whole().schedule.provenance["forks"])  # type: ignore[union-attr]
    # The rest of the forks that run alone, and then the best ones together.
    steps = Steps(last_epoch=1000)
    assert_whole(search(tmp_path, resume=True, jobs=2, callback=steps))
    assert steps.steps == list(range(steps.steps[0], steps.total_steps + 1))


@pytest.mark.slow
def test_a_killed_search_goes_on_with_the_forks_that_have_ended(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    folder = tmp_path / "run"
    script.write_text(KILLED)
    path = {"PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    with subprocess.Popen(
        [sys.executable, str(script), str(folder)], env={**os.environ, **path}
    ) as process:
        while not has_forks(folder / "checkpoint.pt"):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    steps = Steps(last_epoch=1000)
    assert_whole(search(folder, resume=True, callback=steps))
    # Those of the first epoch, and of the fork that had ended.
    steps_per_epoch = len(small_data().train) // SETTINGS["batch_size"]
    assert steps.steps[0] >= 2 * steps_per_epoch


def test_algorithms_without_forks_are_refused(tmp_path: Path) -> None:
    cases: tuple[dict[str, Any], ...] = ({"jobs": 2}, {"cluster": "auto"})
    for options in cases:
        with pytest.raises(SettingsError, match=r"several --seeds.*not for lookahead"):
            hba.search(
                small_data(), epochs=1, space="hba", out=tmp_path / "run", **options
            )
    with pytest.raises(SettingsError, match="at least 1"):
        search(jobs=0)


@pytest.mark.slow
def test_a_cluster_finds_the_same_bits(machines: Machines) -> None:
    assert_whole(search(cluster=machines.address))
