"""Runs side by side: what differs between them, and their numbers as their files have
them.
"""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from small_trainings import one_operation, tiny_data

import hba
from hba.errors import RunError, SettingsError
from hba.results.compare import REGULARIZERS, SCHEDULES, SETTINGS, TEST, VALIDATION
from hba.schedule.summary import reach, summarize


def as_mapping(table: Any) -> dict[str, list[str]]:
    return {name: cells for name, *cells in table.rows}


def test_settings_that_differ_are_shown_and_no_others(
    searched: Path, tuned: Path
) -> None:
    shown = as_mapping(hba.compare(searched, tuned / "both").tables()[SETTINGS])
    stored = [
        json.loads((run / "config.json").read_text(encoding="utf-8"))
        for run in (searched, tuned / "both")
    ]
    for name in {*stored[0]} & {*stored[1]} - {"own parts"}:
        own_parts = {
            component for config in stored for component in config.get("own parts", ())
        }
        differs = stored[0][name] != stored[1][name]
        assert name in own_parts or (name in shown) == differs, name
    assert shown["epochs"] == ["5", "3"]
    assert SETTINGS not in hba.compare(searched).tables()


def test_numbers_are_those_of_the_files(
    searched: Path, evaluated: Path, tuned: Path
) -> None:
    runs = (searched, tuned / "both", evaluated)
    tables = hba.compare(*runs).tables()
    validation = as_mapping(tables[VALIDATION])
    schedules = as_mapping(tables[SCHEDULES])
    for column, run in enumerate(runs[:2]):
        with (run / "metrics.csv").open(encoding="utf-8") as file:
            last = list(csv.DictReader(file))[-1]
        assert validation["epoch"][column] == last["epoch"]
        assert validation["loss"][column] == f"{float(last['val_loss']):.3f}"
        assert (
            validation["error"][column] == f"{float(last['val_error_percent']):.2f} %"
        )
        schedule = hba.load_policy(run)
        for summary in summarize(schedule, (schedule.epochs - 1,)):
            share = reach(schedule, schedule.epochs - 1).shares[summary.operation.name]
            copies = [f"{copy:.3g}" for copy in (summary.shown_magnitudes or ((),))[0]]
            expected = (
                f"{100 * share:.1f} % "
                f" ({', '.join([f'{summary.probability[0]:.2f}', *copies])})"
            )
            assert schedules[summary.operation.name][column] == expected
    results = json.loads((evaluated / "results.json").read_text(encoding="utf-8"))
    test = as_mapping(tables[TEST])
    first = results["rows"][0]
    assert test[first["name"]] == [
        "",
        "",
        f"{first['mean']:.2f} %  (loss {first['test_loss']['mean']:.3f} nats)",
    ]
    minus = results["rows"][1]["schedule_minus_row"]
    assert test[f"{first['name']} minus none"][2].startswith(f"{minus['mean']:+.2f}")
    regularizers = as_mapping(
        hba.compare(tuned / "both", tuned / "alone").tables()[REGULARIZERS]
    )
    assert (
        regularizers["label_smoothing"][0]
        == regularizers["input_dropout.rate"][1]
        == "-"
    )
    last = dict(zip(schedule.space.names, schedule.values[-1].tolist(), strict=True))
    assert regularizers["weight_decay"][0] == f"{last['weight_decay']:.3g}"


def test_a_row_is_one_augmentation_whichever_run_has_it_first(tmp_path: Path) -> None:
    def evaluate(folder: Path, schedule: Any, against: Any) -> list[float]:
        settings: Any = {
            "model": "mlp-8",
            "epochs": 1,
            "batch_size": 20,
            "device": "cpu",
        }
        options: Any = {"seeds": 1, "out": folder, **settings}
        results = hba.evaluate(schedule, tiny_data(), against=against, **options)
        return [row.test_error_percent[0] for row in results.rows]

    dim, bright = (one_operation("Brightness", [[1.0, to]]) for to in (0.5, 1.5))
    runs = {name: tmp_path / name for name in ("first", "second")}
    errors = {
        "first": evaluate(runs["first"], "none", ["randaugment", dim]),
        "second": evaluate(runs["second"], "randaugment", ["none", bright]),
    }
    (first, second), of_row = (
        runs.values(),
        as_mapping(hba.compare(*runs.values()).tables()[TEST]),
    )

    def shown(name: str) -> list[str]:
        return [cell.partition("  ")[0] for cell in of_row[name]]

    texts = {
        name: [f"{error:.2f} %" for error in errors_of_run]
        for name, errors_of_run in errors.items()
    }
    assert shown("none") == [texts["first"][0], texts["second"][1]]
    assert shown("randaugment") == [texts["first"][1], texts["second"][0]]
    # Both runs call their third row `schedule 3`.
    assert shown(f"schedule 3 of {first}") == [texts["first"][2], ""]
    assert shown(f"schedule 3 of {second}") == ["", texts["second"][2]]


def test_what_is_no_run_is_refused(searched: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=tmp_path.name):
        hba.compare(searched, tmp_path)
    with pytest.raises(SettingsError, match="at least one run"):
        hba.compare()
