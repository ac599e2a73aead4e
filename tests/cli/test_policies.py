"""hba policies: the list of what ships, and the cards, whose numbers are those of their evaluations."""

import json
import statistics
from pathlib import Path
from typing import Any

import pytest
from commands import refusal_of, run

import hba
from hba.config.evaluation import EvaluationConfig
from hba.policy_evaluation.baselines import RowConfig
from hba.policy_evaluation.statistics import PairedDifference
from hba.report import card
from hba.training.augmentation import augmentation_of
from hba.utils.text import duration

POLICIES = Path(__file__).parents[2] / "policies"
NAMES = sorted(path.stem for path in POLICIES.glob("*.json"))


def card_of(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((POLICIES / "cards" / f"{name}.json").read_text(encoding="utf-8"))
    return found


def test_every_shipped_schedule_has_a_card_and_every_card_a_schedule() -> None:
    assert NAMES == sorted(path.stem for path in (POLICIES / "cards").glob("*.json")) == hba.policy_names()
    assert NAMES


def test_the_list_says_where_schedules_are_from_and_what_they_are_worth() -> None:
    expected = []
    for name in NAMES:
        content, results = json.loads((POLICIES / f"{name}.json").read_text("utf-8")), card_of(name)["results"]
        origin, details = content["provenance"], results["verdict_details"]
        error = f"{results['rows'][0]['mean']:.2f} %"
        verdict = f"{details['kind']}, against {details['against']}"
        expected.append([name, origin["dataset"], origin["model"], str(content["epochs"]), error, verdict])
    lines = [line for line in run("policies").stdout.splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in line.strip("│").split("│")] for line in lines] == expected


def test_as_json_they_have_their_provenance_and_their_card() -> None:
    shipped = json.loads(run("policies", "--json").stdout)
    assert [one["name"] for one in shipped] == NAMES
    assert [one["card"] for one in shipped] == [card_of(name) for name in NAMES]
    assert all(one["provenance"]["dataset"] for one in shipped)


@pytest.mark.parametrize("name", NAMES)
def test_a_card_has_the_numbers_of_an_evaluation_of_this_schedule(name: str) -> None:
    results = card_of(name)["results"]
    schedule, *others = results["rows"]
    errors = dict(zip(schedule["seeds"], schedule["test_error_percent"], strict=True))
    for row in others:
        found = PairedDifference.of(errors, minus=dict(zip(row["seeds"], row["test_error_percent"], strict=True)))
        assert found is not None
        assert row["schedule_minus_row"]["mean"] == pytest.approx(found.mean)
        assert row["schedule_minus_row"]["interval"] == pytest.approx(found.interval)
    assert schedule["mean"] == pytest.approx(statistics.mean(errors.values()))
    # A row is known by what it does with images: this is of this file and no other.
    config = EvaluationConfig.make({**results["settings"], "data": "digits"})
    assert RowConfig(name, config, (augmentation_of(hba.load_policy(name)),)).definition == schedule["definition"]


@pytest.mark.parametrize("name", NAMES)
def test_a_card_is_printed_with_its_commands(name: str) -> None:
    shipped = card_of(name)
    text = " ".join(run("policies", name).stdout.split())
    for part in (shipped["text"], shipped["search"], shipped["evaluate"], shipped["results"]["verdict"]):
        assert " ".join(str(part).split()) in text
    assert json.loads(run("policies", name, "--json").stdout)["results"]["rows"][0]["name"] == "schedule"


@pytest.mark.parametrize("name", NAMES)
def test_a_card_says_what_the_search_and_the_evaluation_took_and_on_what(name: str) -> None:
    found, results = json.loads((POLICIES / f"{name}.json").read_text("utf-8"))["provenance"], card_of(name)["results"]
    lines = run("policies", name).stdout.splitlines()
    (search,) = [line for line in lines if line.startswith("Search: ")]
    (evaluation,) = [line for line in lines if line.startswith("Evaluation: ")]
    assert search.startswith(f"Search: {duration(found['wall_seconds'])}; {found['device']}, {found['device_name']}, ")
    n_trainings = sum(len(row["seeds"]) for row in results["rows"])
    assert evaluation.startswith(f"Evaluation: {n_trainings} trainings, ")
    assert f" {duration(results['wall_seconds'])}; {results['device']}, {results['device_name']}, " in evaluation


def costs_of(
    folder: Path, provenance: dict[str, Any], results: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> tuple[str, str]:
    """Where these stand in the files of a shipped schedule in the place of what they have."""
    schedule, described = json.loads((POLICIES / f"{NAMES[0]}.json").read_text("utf-8")), card_of(NAMES[0])
    schedule["provenance"] |= provenance
    described["results"] |= results
    files = folder / "schedule.json", folder / "card.json"
    for file, content in zip(files, (schedule, described), strict=True):
        file.write_text(json.dumps(content), "utf-8")
    monkeypatch.setattr(card, "files_of", lambda name: files)
    return card.costs(NAMES[0])


def test_the_cost_of_a_search_and_of_trainings_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searched = {"wall_seconds": 80.2, "device": "cpu", "device_name": "A processor", "n_threads": 2}
    rows = card_of(NAMES[0])["results"]["rows"][:2]
    evaluated = {**searched, "rows": rows, "wall_seconds": 895.9, "n_threads": 1, "jobs": 2}
    n_trainings = sum(len(row["seeds"]) for row in rows)
    assert costs_of(tmp_path, searched, evaluated, monkeypatch) == (
        "Search: 80 s; cpu, A processor, 2 threads.",
        f"Evaluation: {n_trainings} trainings, 2 at a time, 15 min; cpu, A processor, 1 thread each.",
    )


def test_a_time_that_was_not_kept_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searched, evaluated = costs_of(tmp_path, {"wall_seconds": None}, {"wall_seconds": None}, monkeypatch)
    assert searched.startswith("Search: time not kept; ")
    assert ", time not kept; " in evaluated


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    assert refusal_of("policies", "digit").startswith("no shipped schedule 'digit'")
