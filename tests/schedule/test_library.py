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
    return Schedule(SearchSpace((OPERATIONS["Invert"],), copies=2), np.full((3, 2), probability))


@pytest.mark.parametrize("form", [str, Path])
def test_a_file_is_loaded_by_its_path(tmp_path: Path, form: type[str] | type[Path]) -> None:
    small_schedule(0.25).save(tmp_path / "a.json")
    loaded = hba.load_policy(form(tmp_path / "a.json"))
    np.testing.assert_array_equal(loaded.values, np.full((3, 2), 0.25))


@pytest.mark.parametrize("form", [str, Path])
def test_a_run_folder_stands_for_its_policy(tmp_path: Path, form: type[str] | type[Path]) -> None:
    small_schedule(0.75).save(tmp_path / "run" / "policy.json")
    loaded = hba.load_policy(form(tmp_path / "run"))
    np.testing.assert_array_equal(loaded.values, np.full((3, 2), 0.75))


def test_the_shipped_names_are_the_files_in_the_policies_folder() -> None:
    assert hba.policy_names() == sorted(path.stem for path in POLICIES.glob("*.json"))
    assert "digits" in hba.policy_names()


@pytest.mark.parametrize("name", [path.stem for path in sorted(POLICIES.glob("*.json"))])
def test_every_shipped_schedule_loads_as_its_file_says(name: str) -> None:
    content = json.loads((POLICIES / f"{name}.json").read_text(encoding="utf-8"))
    schedule = hba.load_policy(name)
    np.testing.assert_array_equal(schedule.values, np.array(content["values"]))
    assert schedule.space.names == tuple(content["hyperparameters"])
    assert [operation.name for operation in schedule.space.operations] == list(OPERATIONS)
    assert schedule.epochs == content["epochs"] == content["provenance"]["epochs_finished"]
    assert dict(schedule.provenance) == content["provenance"]
    assert schedule.provenance["algorithm"] == "lookahead"


def test_a_file_stands_before_the_shipped_schedule_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shipped = hba.load_policy("digits")
    assert shipped.epochs != 3
    small_schedule().save("digits")
    assert hba.load_policy("digits").epochs == 3


@pytest.mark.parametrize(
    ("name", "expected"),
    [("digits", None), ("run", "run/policy.json"), ("a.json", "a.json"), ("nowhere.json", "nowhere.json")],
)
def test_the_file_that_is_loaded_is_known(
    name: str, expected: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # An empty folder of a shipped name is one of images.
    for folder in ("run", "digits"):
        Path(folder).mkdir()
    Path("a.json").touch()
    assert policy_file(name) == (None if expected is None else Path(expected))
    small_schedule().save("digits/policy.json")
    assert policy_file("digits") == Path("digits/policy.json")


def test_the_ending_is_no_part_of_a_shipped_name() -> None:
    with pytest.raises(ScheduleError, match=r"no schedule file digits\.json"):
        hba.load_policy("digits.json")


@pytest.mark.parametrize("name", ["nowhere", "nowhere.json", "a/b/policy.json", "Digits"])
def test_an_unknown_name_is_refused_with_the_shipped_ones(name: str) -> None:
    with pytest.raises(
        ScheduleError, match=rf"^no schedule file {name}; (did you mean digits\? S|s)hipped ones: .*digits"
    ):
        hba.load_policy(name)


def test_a_folder_without_a_policy_is_refused_with_the_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ScheduleError, match=r"no schedule file .*policy\.json") as raised:
        hba.load_policy(tmp_path)
    assert str(tmp_path / "policy.json") in str(raised.value)


def test_a_file_that_is_no_schedule_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"values": [1, 2]}')
    with pytest.raises(ScheduleError, match=r"a\.json is not a valid schedule"):
        hba.load_policy(tmp_path / "a.json")
