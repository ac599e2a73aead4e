"""Schedules by file, run folder or shipped name."""

import json
from pathlib import Path

import numpy as np
import pytest

import hba
from hba.errors import ScheduleError
from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.schedule.library import policy_file
from hba.schedule.schedule import Schedule

POLICIES = Path(__file__).parents[2] / "policies"


def small_schedule(probability: float = 0.5) -> Schedule:
    return Schedule(
        SearchSpace((OPERATIONS["Invert"],), copies=2), np.full((3, 2), probability)
    )


def test_every_shipped_schedule_loads_as_its_file_says() -> None:
    names = sorted(path.stem for path in POLICIES.glob("*.json"))
    assert hba.policy_names() == names
    for name in names:
        content = json.loads((POLICIES / f"{name}.json").read_text(encoding="utf-8"))
        schedule = hba.load_policy(name)
        np.testing.assert_array_equal(schedule.values, np.array(content["values"]))
        assert schedule.space.names == tuple(content["hyperparameters"])
        assert (
            schedule.epochs
            == content["epochs"]
            == content["provenance"]["epochs_finished"]
        )
        assert dict(schedule.provenance) == content["provenance"]


def test_files_and_run_folders_stand_before_shipped_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small_schedule(0.25).save("a.json")
    small_schedule(0.75).save("run/policy.json")
    for name, probability in (
        ("a.json", 0.25),
        (Path("a.json"), 0.25),
        ("run", 0.75),
        (tmp_path / "run", 0.75),
    ):
        np.testing.assert_array_equal(
            hba.load_policy(name).values, np.full((3, 2), probability)
        )
    # An empty folder of a shipped name is one of images.
    Path("digits").mkdir()
    for name, expected in (
        ("digits", None),
        ("run", Path("run/policy.json")),
        ("nowhere.json", Path("nowhere.json")),
    ):
        assert policy_file(name) == expected
    small_schedule().save("digits/policy.json")
    assert policy_file("digits") == Path("digits/policy.json")
    Path("digits/network.pt").touch()
    assert policy_file("digits/network.pt") == Path("digits/policy.json")


def test_what_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    for name in ("nowhere", "nowhere.json", "a/b/policy.json", "Digits", "digits.json"):
        with pytest.raises(ScheduleError, match=f"no schedule file {name}.*digits"):
            hba.load_policy(name)
    with pytest.raises(ScheduleError, match=r"policy\.json"):
        hba.load_policy(tmp_path)
    (tmp_path / "seed-3").mkdir()
    with pytest.raises(ScheduleError, match="seed-3"):
        hba.load_policy(tmp_path)
