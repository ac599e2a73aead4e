"""Confusion matrices on the page: planted answers are found again in shades, tables and words."""

import json
from pathlib import Path
from typing import Any

import pytest
from report_pages import check_page

import hba
from hba.report.confusions import confusions
from hba.report.results import read_results


def results_of(tmp_path: Path, n_classes: int, confusion: list[dict[int, dict[int, int]]]) -> Path:
    """An evaluation of 2 seeds in which `none` is right throughout, `mine` as planted, and `final` not compared."""
    right = {label: {label: 10} for label in range(n_classes)}
    rows: list[dict[str, Any]] = []
    for name, found in (("mine", confusion), ("final", confusion), ("none", [right, right])):
        rows.append({"name": name, "definition": "", "seeds": [0, 1], "test_error_percent": [1.0, 2.0], "mean": 1.5,
                     "std": 0.7, "confusion": found,
                     "balanced_accuracy": {"percent": [90.0, 92.0], "mean": 91.0, "std": 1.41,
                                           "schedule_minus_row": {"n_pairs": 2, "mean": -9.0,
                                                                  "interval": [-12.5, -5.5]}}})  # fmt: skip
    content = {
        "settings": {"epochs": 1, "model": "m", "data": "d"}, "rows": rows, "verdict": "Verdict: worse.",
        "verdict_details": {"against": "none"}, "class_names": [f"<i>{label}" for label in range(n_classes)],
        "train_images": 1, "test_images": 10 * n_classes, "skipped_images": 0, "fingerprints": {}, "device": "cpu",
        "device_name": "", "n_threads": 1, "python": "3", "packages": {},
    }  # fmt: skip
    (tmp_path / "results.json").write_text(json.dumps(content), encoding="utf-8")
    return tmp_path / "results.json"


PLANTED = [{0: {0: 7, 1: 3}, 1: {1: 10}, 2: {0: 1, 2: 9}}, {0: {0: 6, 1: 4}, 1: {1: 10}, 2: {0: 2, 2: 8}}]


def test_pairs_recalls_and_shades_are_the_means_over_seeds(tmp_path: Path) -> None:
    found = confusions(read_results(results_of(tmp_path, 3, PLANTED)))
    assert found is not None
    assert found.pairs.rows == (("<i>0", "<i>1", "35.0 %", "0.0 %"), ("<i>2", "<i>0", "15.0 %", "0.0 %"))
    assert found.recalls is not None
    assert found.recalls.rows == (
        ("<i>0", "65.0 %", "100.0 %"),
        ("<i>1", "100.0 %", "100.0 %"),
        ("<i>2", "85.0 %", "100.0 %"),
    )
    mine, none = found.matrices
    assert (mine.name, none.name) == ("mine", "none")
    assert "<i>0 for <i>1 35.0 %, <i>2 for <i>0 15.0 %" in mine.description
    shades = {shade.style: shade.cells for shade in mine.shades}
    # A third of the width each: class 2 taken for 0 in the lower left, 0 taken for 1 in the middle above.
    assert shades["n2"] == "M0,66.667h33.333v33.333h-33.333z"
    assert shades["n3"] == "M33.333,0h33.333v33.333h-33.333z"
    assert shades["n4"].count("M") == 3
    assert shades["n1"] == ""
    assert [round(label.at, 2) for label in mine.classes] == [16.67, 50, 83.33]
    assert found.balanced.rows[2] == ("none", "91.00 %", "1.41 %", "-9.00 (-12.50 to -5.50)")


def test_a_balanced_accuracy_over_fewer_seeds_than_were_run_says_so(tmp_path: Path) -> None:
    """The first seed's was trained by a version that kept none."""
    content = json.loads(results_of(tmp_path, 3, PLANTED).read_text("utf-8"))
    content["rows"][0]["balanced_accuracy"] = {"percent": [None, 92.0], "mean": 92.0, "std": None}
    (tmp_path / "results.json").write_text(json.dumps(content), encoding="utf-8")
    found = confusions(read_results(tmp_path / "results.json"))
    assert found is not None
    assert [row[1] for row in found.balanced.rows] == ["92.00 % (1 of 2 seeds)", "91.00 %", "91.00 %"]


def test_the_page_has_them_as_pictures_with_words_and_as_tables(tmp_path: Path) -> None:
    results_of(tmp_path, 3, PLANTED)
    hba.write_report(tmp_path)
    page = check_page((tmp_path / "report.html").read_text(encoding="utf-8"))
    described = [str(one.get("aria-label")) for one in page.attributes_of("svg")]
    assert [text.partition(":")[0] for text in described if text.startswith("Confusion")] == [
        "Confusion matrix of mine", "Confusion matrix of none",
    ]  # fmt: skip
    assert page.table_with("taken for")[1:] == [
        ["<i>0", "<i>1", "35.0 %", "0.0 %"],
        ["<i>2", "<i>0", "15.0 %", "0.0 %"],
    ]
    assert page.table_with("right by mine")[1] == ["<i>0", "65.0 %", "100.0 %"]
    assert len(page.table_with("balanced accuracy")) == 4


@pytest.mark.parametrize(("n_classes", "n_named", "n_drawn"), [(20, 20, 2), (21, 0, 2), (100, 0, 2), (101, 0, 0)])
def test_of_many_classes_only_what_can_be_seen_is_drawn(
    n_classes: int, n_named: int, n_drawn: int, tmp_path: Path
) -> None:
    planted = {label: {label: 6, (label + 1) % n_classes: 4} for label in range(n_classes)}
    found = confusions(read_results(results_of(tmp_path, n_classes, [planted, planted])))
    assert found is not None
    assert [len(matrix.classes) for matrix in found.matrices] == [n_named] * n_drawn
    assert (found.recalls is None) == (n_drawn == 0)
    assert len(found.pairs.rows) == 10
    hba.write_report(tmp_path)
    assert "taken for" in check_page((tmp_path / "report.html").read_text(encoding="utf-8")).text


def test_without_a_mistake_the_page_says_so(tmp_path: Path) -> None:
    right = {label: {label: 10} for label in range(2)}
    results_of(tmp_path, 2, [right, right])
    hba.write_report(tmp_path)
    assert "No image is taken for another class." in (tmp_path / "report.html").read_text(encoding="utf-8")
