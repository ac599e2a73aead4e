"""Reports, comparisons and sentences of schedules with regularizers, beside operations and alone."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_pages import StrictPage, check_page
from search_problems import SMALL_SETTINGS, WithDropout, small_data, small_images
from tuned_schedules import OTHERS, alone, both

import hba
from hba.data import EvaluationData
from hba.policy.space import SearchSpace
from hba.regularization.hyperparameter import Hyperparameter
from hba.report.compare import REGULARIZERS, SCHEDULES, SETTINGS
from hba.report.findings import change_lines, regularizer_changes, regularizer_table, whole_line
from hba.report.regularizers import regularizer_panels
from hba.report.write import write_report
from hba.schedule.schedule import Schedule

TUNES = {"both": "augmentation,dropout,weight-decay,affine", "alone": "dropout,weight-decay,label-smoothing"}
SETTINGS_OF_BOTH = {"operations": ("Rotate", "Invert")}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search of both, and one of regularizers alone."""
    folder = tmp_path_factory.mktemp("tuned")
    for name, tune in TUNES.items():
        settings: dict[str, Any] = {**SMALL_SETTINGS, **(SETTINGS_OF_BOTH if name == "both" else {})}
        result = hba.search(small_data(), tune=tune, network=WithDropout(), out=folder / name, **settings)
        assert result.report == folder / name / "report.html"
    return folder


def page_in(folder: Path) -> StrictPage:
    return check_page((folder / "report.html").read_text(encoding="utf-8"))


def labels_of(page: StrictPage) -> list[str]:
    return [str(one["aria-label"]) for one in page.attributes_of("svg") if "aria-label" in one]


@pytest.mark.parametrize("name", TUNES)
def test_a_page_has_the_numbers_of_all_regularizers(name: str, runs: Path) -> None:
    content = json.loads((runs / name / "policy.json").read_text(encoding="utf-8"))
    values = dict(zip(content["hyperparameters"], np.array(content["values"]).T, strict=True))
    regularizers = {one["name"]: one for one in content["space"]["regularizers"]}
    page = page_in(runs / name)
    large, small = [table for table in page.tables if table[0][:2] == ["regularizer", "began at"]]
    for table in (large, small):
        assert table[0][2:5] == ["epoch 1", "epoch 2", "epoch 3"]
        assert [row[0] for row in table[1:]] == list(regularizers)
        for row in table[1:]:
            assert float(row[1].split()[0]) == pytest.approx(regularizers[row[0]]["initial"], rel=5e-3)
            assert [float(cell) for cell in row[2:5]] == pytest.approx(values[row[0]].tolist(), rel=5e-3, abs=1e-9)
    for one in regularizers:
        (label,) = [label for label in labels_of(page) if re.match(rf"{re.escape(one)}\b(?!\.)", label)]
        assert " over 3 epochs: " in label


def test_a_page_of_regularizers_alone_has_no_part_of_operations(runs: Path) -> None:
    page, other = page_in(runs / "alone"), page_in(runs / "both")
    assert "Regularization schedule for small" in page.text
    assert "Augmentation and regularization schedule for small" in other.text
    for part in (
        "Each operation over the epochs.",
        "Which operations are applied.",
        "An image gets",
        "On these images.",
    ):
        assert part in other.text
        assert part not in page.text
    assert page.attributes_of("img") == []
    assert "Not shown, because they act elsewhere: dropout.dropout, weight_decay." in other.text
    assert {"affine"} <= set(other.text.split()), "pictures name what acts on pixels"
    assert not [table for table in page.tables if len(table) < 2], "no table is empty"


def test_an_evaluation_of_either_has_a_page_too(runs: Path, tmp_path: Path) -> None:
    tiny: dict[str, Any] = {"epochs": 1, "batch_size": 20, "device": "cpu", "seeds": 1}
    data = small_data()
    evaluated = EvaluationData("small", data.class_names, data.train, small_images(12, seed=2))
    for name in TUNES:
        result = hba.evaluate(runs / name, evaluated, network=WithDropout(), out=tmp_path / name, **tiny)
        assert result.report is not None
        assert "Each regularizer over the epochs." in page_in(tmp_path / name).text


def points_of(line: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"([\d.]+),([\d.]+)", line)]


def test_curves_stand_at_the_places_of_their_values() -> None:
    panels = {panel.name: panel for panel in regularizer_panels(both()).panels}
    assert {name: len(panel.curves) for name, panel in panels.items()} == {"dropout": 1, "weight_decay": 1, "cutout": 2}
    (decay,) = panels["weight_decay"].curves
    # Of the five decades from 1e-6 to 0.1, from the top.
    expected = [100 - 20 * (np.log10(value) + 6) for value in (5e-4, 1e-3, 1e-2)]
    assert [y for _, y in points_of(decay.lines[0])] == pytest.approx(expected, abs=0.01)
    assert (decay.quantity, decay.low, decay.high) == ("log scale", "1e-6", "0.1")
    (dropout,) = panels["dropout"].curves
    assert [x for x, _ in points_of(dropout.lines[0])] == [0, 50, 100]
    rates = [one[0] for one in OTHERS]
    assert [y for _, y in points_of(dropout.lines[0])] == pytest.approx(
        [100 - 100 * rate / 0.95 for rate in rates], abs=0.01
    )
    assert (dropout.before, dropout.after, dropout.quantity) == ("0.05", "0.31", "fc1")
    assert panels["cutout"].curves[0].quantity == "length, pixels"


def test_long_schedules_have_curves_of_few_points() -> None:
    long = alone().stretched(2000)
    assert all(
        len(points_of(curve.lines[0])) <= 120 for panel in regularizer_panels(long).panels for curve in panel.curves
    )
    table = regularizer_panels(long).table
    assert len(table.headings) == 8
    assert [row[-1] for row in table.rows] == ["0.31", "0.01", "6.25", "2"]


def test_the_end_of_a_search_says_from_where_to_where_each_came() -> None:
    rows = ["dropout.fc1    0.05 -> 0.31", "weight_decay   0.0005 -> 0.01"]
    rows += ["cutout.length  4 -> 6.25 pixels", "cutout.holes   1 -> 2"]
    known: dict[str, Any] = {"settings": {"initial_fraction": 0.5}, "policy_steps": 9}
    title, *lines = change_lines(alone(**known))
    assert title == "After 3 epochs and 9 policy steps, regularizers:"
    assert lines == [f"  {row}" for row in rows]
    of_both = change_lines(both(**known))
    assert of_both[0] == "After 3 epochs and 9 policy steps, changed most:"
    assert of_both[-5:] == ["Regularizers:", *lines]
    assert change_lines(both().without_regularizers()) == change_lines(both())[:-5]


def test_of_very_many_those_that_moved_most_are_told() -> None:
    dropouts = tuple(Hyperparameter(f"dropout.block{n}", 0.0, 1.0, 0.5) for n in range(20))
    space = SearchSpace((), count_probabilities=(1.0,), regularizers=dropouts)
    schedule = Schedule(space, np.array([[0.5 + n / 100 for n in range(20)]]))
    title, rows = regularizer_changes(schedule)
    assert title == "To epoch 1, regularizers (the 12 of 20 that moved most)"
    assert rows == [(f"dropout.block{n}", f"0.5 -> {0.5 + n / 100:.3g}") for n in range(8, 20)]


def test_the_table_has_a_column_of_units_where_there_are_some() -> None:
    headings, rows = regularizer_table(alone())
    assert headings == ("regularizer", "began at", "epoch 1", "epoch 2", "epoch 3", "unit")
    assert rows[1] == ("weight_decay", "0.0005", "0.0005", "0.001", "0.01", "")
    assert rows[2] == ("cutout.length", "4", "4", "5", "6.25", "pixels")
    assert whole_line(alone()) == "Rounded to whole numbers where they act: cutout.length, cutout.holes."
    first = SearchSpace((), count_probabilities=(1.0,), regularizers=alone().space.regularizers[:2])
    headings, rows = regularizer_table(Schedule(first, np.array([[0.1, 0.01]])))
    assert headings == ("regularizer", "began at", "epoch 1")
    assert whole_line(Schedule(first, np.array([[0.1, 0.01]]))) is None


def test_a_comparison_has_the_last_values_of_all_regularizers(runs: Path, tmp_path: Path) -> None:
    compared = hba.compare(runs / "both", runs / "alone")
    found = {name: cells for name, *cells in compared.tables()[REGULARIZERS].rows}
    for column, name in enumerate(TUNES):
        schedule = hba.load_policy(runs / name)
        last = dict(zip(schedule.space.names, schedule.values[-1].tolist(), strict=True))
        for one in schedule.space.regularizers:
            unit = f" {one.unit}" if one.unit else ""
            assert found[one.name][column] == f"{last[one.name]:.3g}{unit}"
    assert found["label_smoothing"][0] == "-"
    assert found["affine.degrees"][1] == "-"
    tables = compared.tables()
    assert [row[2] for row in tables[SCHEDULES].rows] == ["", ""], "no operation was tuned"
    assert ("tune", *(tune.replace(",", ", ") for tune in TUNES.values())) in tables[SETTINGS].rows
    check_page(compared.save(tmp_path / "a.html").read_text(encoding="utf-8"))
    assert SCHEDULES not in hba.compare(runs / "alone").tables()


def test_names_from_a_schedule_are_text_and_nothing_else(runs: Path, tmp_path: Path) -> None:
    for file in (runs / "alone").iterdir():
        if file.is_file():
            text = file.read_bytes()
            (tmp_path / file.name).write_bytes(text.replace(b"dropout.dropout", b"dropout.<script>x</script>"))
    write_report(tmp_path)
    page = page_in(tmp_path)
    assert "dropout.<script>x</script>" in page.text
