"""A search that begins at a schedule: where it begins, what it keeps of it, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from search_problems import StopAfter, small_data, small_settings

import hba
from hba.algorithms import ALGORITHMS
from hba.algorithms.algorithm import first_row
from hba.errors import SettingsError
from hba.policy.spaces import of_row
from hba.schedule.summary import start_of


def imported() -> hba.Schedule:
    return hba.import_policy("torchvision", "autoaugment-cifar10")


def run(out: Path | None = None, **settings: Any) -> hba.SearchResult:
    return hba.search(small_data(), out=out, **small_settings(**settings))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_begins_at_the_schedule(algorithm: str) -> None:
    # Nothing moves in the first epoch.
    still = {"train_steps": 1000} if "population" in algorithm else {"warm_up_epochs": 2}
    result = run(None, algorithm=algorithm, init_from=imported(), **still)
    assert result.schedule is not None
    space = result.schedule.space
    expected = space.decode(of_row(space, first_row(imported())).double()).numpy()
    assert result.schedule.values[0] == pytest.approx(expected, abs=2e-6)
    assert start_of(result.schedule) == pytest.approx(expected, abs=1e-6)


def test_a_run_is_resumed_without_the_schedule(tmp_path: Path) -> None:
    file, out = tmp_path / "start.json", tmp_path / "run"
    imported().save(file)
    whole = run(init_from=file)
    stopped = run(out, init_from=str(file), callback=StopAfter(4))
    assert not stopped.finished
    stored = json.loads((out / "config.json").read_text())
    assert stored["init_from"] == {"schedule": str(file), "values": first_row(imported())}
    renamed = file.rename(tmp_path / "renamed.json")
    with pytest.raises(SettingsError, match=r"^a resumed run keeps its settings; .* has init_from '.*start.json' \("):
        run(out, init_from="digits", resume=True)
    resumed = run(out, resume=True)
    assert resumed.finished
    assert resumed.schedule is not None
    assert whole.schedule is not None
    assert np.array_equal(resumed.schedule.values, whole.schedule.values)
    assert torch.equal(resumed.lam, whole.lam)
    # The same row under another name is the same setting.
    assert run(out, init_from=renamed, resume=True).finished
