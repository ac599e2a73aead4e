"""Searches with several seeds: each is the search of its seed, wherever it runs, and
stopped ones are resumed.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ray_machines import Machines
from search_problems import SMALL_SETTINGS, StopAfter, small_data

import hba
from hba.errors import DivergedError, RunError, SettingsError
from hba.policy_search.seeds import repeated_search
from hba.schedule.schedule import Schedule


def repeat(out: Path, **settings: Any) -> Any:
    return repeated_search(
        small_data(), out=out, **{**SMALL_SETTINGS, "epochs": 1, **settings}
    )


def go_on(out: Path, **settings: Any) -> Any:
    return repeated_search(small_data(), out=out, resume=True, **settings)


def values_in(folder: Path) -> np.ndarray:
    return Schedule.load(folder / "policy.json").values


def test_each_is_the_search_of_its_seed(tmp_path: Path) -> None:
    done: list[int] = []
    repeats = repeat(
        tmp_path, seeds=2, seed=3, on_done=lambda seed, folder: done.append(seed)
    )
    assert done == sorted(repeats.schedules) == [3, 4]
    for seed in done:
        settings: dict[str, Any] = {**SMALL_SETTINGS, "epochs": 1, "seed": seed}
        alone = hba.search(small_data(), **settings).schedule
        assert alone is not None
        assert (values_in(tmp_path / f"seed-{seed}") == alone.values).all()
        assert (
            json.loads((tmp_path / f"seed-{seed}" / "config.json").read_text())["seed"]
            == seed
        )
    assert (values_in(tmp_path / "seed-3") != values_in(tmp_path / "seed-4")).any()


@pytest.mark.slow
def test_two_processes_find_what_one_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    repeat(tmp_path / "one", seeds=2)
    repeat(tmp_path / "two", seeds=2, jobs=2)
    for name in ("seed-0", "seed-1"):
        assert (
            values_in(tmp_path / "one" / name) == values_in(tmp_path / "two" / name)
        ).all()


@pytest.mark.slow
def test_what_was_stopped_goes_on_and_more_seeds_begin_as_the_others_did(
    tmp_path: Path,
) -> None:
    whole = repeat(tmp_path / "whole", seeds=3)
    assert repeat(tmp_path / "stopped", seeds=2, callback=StopAfter(2)) is None
    assert not (tmp_path / "stopped" / "seed-1" / "checkpoint.pt").exists()
    with pytest.raises(RunError, match=r"holds searches already: add --resume"):
        repeat(tmp_path / "stopped", seeds=2)
    resumed = go_on(tmp_path / "stopped")
    assert sorted(resumed.schedules) == [0, 1], "as many as were asked for"
    longer = go_on(tmp_path / "stopped", seeds=3)
    for seed, schedule in whole.schedules.items():
        assert (schedule.values == longer.schedules[seed].values).all()
    with pytest.raises(SettingsError, match="seeds"):
        go_on(tmp_path / "stopped", seeds=2)


def test_what_cannot_work_is_refused_before_a_folder_is_made(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"seeds": 1}, "seeds"),
        ({}, "seeds"),
        ({"seeds": 2, "jobs": 0}, "jobs"),
        ({"seeds": 2, "budget_seconds": 60.0}, "budget"),
        ({"seeds": 2, "jobs": 2, "cluster": "auto"}, "jobs"),
    ]
    for settings, name in cases:
        with pytest.raises(SettingsError, match=name):
            repeat(tmp_path / "new", **settings)
        assert not (tmp_path / "new").exists()


def test_one_that_diverges_does_not_keep_the_others_from_being_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def search_or_diverge(data: Any, **options: Any) -> hba.SearchResult:
        if options["out"].name == "seed-0":
            raise DivergedError("the loss is not finite")
        return hba.search(data, **options)

    monkeypatch.setattr("hba.policy_search.seeds.search", search_or_diverge)
    with pytest.raises(
        DivergedError,
        match=r"^seed 0: the loss is not finite; the other searches are in ",
    ):
        repeat(tmp_path, seeds=3)
    assert sorted(path.parent.name for path in tmp_path.glob("*/policy.json")) == [
        "seed-1",
        "seed-2",
    ]


@pytest.mark.slow
def test_two_machines_find_what_one_process_finds(
    machines: Machines, tmp_path: Path
) -> None:
    alone = repeat(tmp_path / "alone", seeds=3)
    repeats = repeat(
        tmp_path / "found",
        seeds=3,
        cluster=machines.address,
        on_done=lambda *_: machines.lose_one(),
    )
    for seed, schedule in alone.schedules.items():
        assert (schedule.values == repeats.schedules[seed].values).all()
