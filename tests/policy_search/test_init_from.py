"""A search that begins at a schedule: where it begins, what it keeps of it, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from search_problems import StopAfter, small_data, small_settings

import hba
from hba.algorithms import ALGORITHMS, Lookahead
from hba.algorithms.algorithm import InitialRow, first_row
from hba.errors import SettingsError
from hba.policy.spaces import search_space
from hba.policy.starts import of_row
from hba.policy_search.config import SearchConfig
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


def test_it_differs_from_the_start_without_and_from_another_schedules() -> None:
    config = SearchConfig.make({"init_from": imported()})
    other = SearchConfig.make({"init_from": hba.import_policy("torchvision", "randaugment")})
    starts = [one.algorithm.init_from for one in (config, other, SearchConfig.make({}))]
    assert starts[0] != starts[1]
    assert starts[2] is None


def test_the_first_row_has_probabilities_of_k_where_they_are_not_searched() -> None:
    schedule = hba.Schedule(search_space(operations=["Rotate"]), np.array([[0.5, 3.0, 0.5, 6.0], [0.1] * 4]))
    row = first_row(schedule)
    assert row["Rotate.2.magnitude"] == 6.0
    assert [row[f"count.{k}.probability"] for k in (1, 2)] == pytest.approx([0.8, 0.5 / 0.8])


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


def test_a_run_folder_and_a_shipped_name_are_schedules(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    imported().save(tmp_path / "run" / "policy.json")
    for given in (tmp_path / "run", str(tmp_path / "run")):
        start = SearchConfig.make({"init_from": given}).algorithm.init_from
        assert start is not None
        assert (start.schedule, start.values) == (str(given), first_row(imported()))
    start = SearchConfig.make({"init_from": "digits"}).algorithm.init_from
    assert start is not None
    assert str(start) == "digits"
    assert Lookahead(init_from=InitialRow(schedule="a", values={"Rotate.1.probability": 0.5})).init_from is not None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"init_from": "nowhere.json"}, "no schedule file nowhere.json; shipped ones: cifar10-copy, digits"),
        ({"init_from": 3}, "must be a schedule, its file, a run folder or a shipped name, got 3"),
        ({"init_from": {"schedule": "a", "values": {}}}, "values: "),
        ({"init_from": "digits", "init": "fraction"}, "init has no effect where init_from is given; omit one of them"),
        ({"init_from": "digits", "init": "randaugment"}, "init has no effect where init_from is given; omit one of"),
        ({"init_from": "digits", "initial_fraction": 0.5}, "initial_fraction has no effect where init_from is given;"),
        ({"init_from": "digits", "initial_fraction": 0.3}, "initial_fraction has no effect where init_from is given;"),
    ],
)
def test_what_no_search_can_begin_at_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        SearchConfig.from_preset(settings)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_schedule_of_other_operations_is_refused_before_anything_is_trained() -> None:
    schedule = hba.Schedule(search_space(operations=["Invert"]), np.array([[0.5, 0.5]]))
    with pytest.raises(SettingsError, match=r"^the schedule to begin at must have one of the operations Rotate, but"):
        run(init_from=schedule, operations="Rotate")


def test_a_schedule_whose_provenance_says_nonsense_has_no_known_start() -> None:
    for start in ({"values": 3}, {"values": {"Rotate.1.probability": "x"}}, {"values": {"Color.1.probability": 1}}, {}):
        schedule = hba.Schedule(
            search_space(operations=["Rotate"]), np.full((1, 4), 0.5), provenance={"settings": {"init_from": start}}
        )
        assert start_of(schedule) is None
