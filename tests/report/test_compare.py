"""Runs side by side: what differs between them, and their numbers as their files have them."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from search_problems import SMALL_SETTINGS, small_data
from small_trainings import tiny_data

import hba
from hba.errors import RunError, SettingsError
from hba.report.compare import SCHEDULES, SETTINGS, TEST, VALIDATION
from hba.schedule.summary import reach, summarize

TINY: dict[str, Any] = {"model": "wrn-10-1", "epochs": 1, "batch_size": 20, "device": "cpu", "seeds": 2}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two searches, which differ in their seed and one algorithm's setting, and an evaluation of the first in its
    folder.
    """
    folder = tmp_path_factory.mktemp("runs")
    hba.search(small_data(), out=folder / "<i>", **SMALL_SETTINGS)  # type: ignore[arg-type]
    further: dict[str, Any] = {**SMALL_SETTINGS, "seed": 1, "algorithm": "population", "population_size": 2}
    hba.search(small_data(), out=folder / "two", **further)
    hba.evaluate(folder / "<i>", tiny_data(), against=("none",), out=folder / "<i>", **TINY)
    return folder


def as_mapping(table: Any) -> dict[str, list[str]]:
    return {name: cells for name, *cells in table.rows}


def test_settings_that_differ_are_told_and_no_others(runs: Path) -> None:
    found = as_mapping(hba.compare(runs / "<i>", runs / "two").tables()[SETTINGS])
    stored = [json.loads((runs / name / "config.json").read_text(encoding="utf-8")) for name in ("<i>", "two")]
    for name in {*stored[0], *stored[1]} - {"device", "workers", "data_root", "download"}:
        assert (name in found) == (stored[0].get(name) != stored[1].get(name)), name
    assert found["seed"] == ["0", "1"]
    assert found["algorithm"] == ["lookahead", "population"]
    assert found["population_size"] == ["-", "2"]
    assert SETTINGS not in hba.compare(runs / "two").tables()


def test_numbers_are_those_of_the_files(runs: Path) -> None:
    tables = hba.compare(runs / "<i>", runs / "two").tables()
    validation = as_mapping(tables[VALIDATION])
    for column, name in enumerate(("<i>", "two")):
        with (runs / name / "metrics.csv").open(encoding="utf-8") as file:
            last = list(csv.DictReader(file))[-1]
        assert validation["epoch"][column] == last["epoch"]
        assert validation["loss"][column] == f"{float(last['val_loss']):.3f}"
        assert validation["error"][column] == f"{float(last['val_error_percent']):.2f} %"
    results = json.loads((runs / "<i>" / "results.json").read_text(encoding="utf-8"))
    test = as_mapping(tables[TEST])
    assert test["the schedule"] == [f"{results['rows'][0]['mean']:.2f} %", ""]
    assert test["none"] == [f"{results['rows'][1]['mean']:.2f} %", ""]
    minus = results["rows"][1]["schedule_minus_row"]
    assert test["the schedule minus none"][0].startswith(f"{minus['mean']:+.2f}")


def test_schedules_are_told_at_their_ends(runs: Path) -> None:
    found = as_mapping(hba.compare(runs / "<i>", runs / "two").tables()[SCHEDULES])
    for column, name in enumerate(("<i>", "two")):
        schedule = hba.load_policy(runs / name)
        last = schedule.epochs - 1
        for summary in summarize(schedule, (last,)):
            share = reach(schedule, last).shares[summary.operation.name]
            copies = [] if summary.shown_magnitudes is None else [f"{copy:.3g}" for copy in summary.shown_magnitudes[0]]
            expected = f"{100 * share:.1f} %  ({', '.join([f'{summary.probability[0]:.2f}', *copies])})"
            assert found[summary.operation.name][column] == expected


def test_the_same_folder_twice_has_two_names(runs: Path) -> None:
    names = list(hba.compare(runs / "<i>", runs / "two", runs / "two").runs)
    assert names[0] == "<i>"
    assert len(set(names)) == 3


def test_what_is_no_run_is_refused(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="must be the folder of a search or an evaluation"):
        hba.compare(runs / "two", tmp_path)
    with pytest.raises(SettingsError, match="at least one run"):
        hba.compare()
