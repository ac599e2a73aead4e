"""What is said of a race: symmetries by their threshold, forks by their errors, and
what each seed has taken.
"""

from pathlib import Path
from typing import Any

import pytest

import hba
from hba.algorithms.race_findings import RaceFindings
from hba.algorithms.race_policies import row_of
from hba.policy.spaces import SPACES
from hba.policy_choice.rows import goes_with
from hba.report.findings import race_sentences, schedule_lines, symmetry_results
from hba.results.over_seeds import OverSeeds
from hba.results.provenance import network_measured
from hba.schedule.schedule import Schedule

TAKEN = ["VerticalFlip", "erasing"]
PROVENANCE: dict[str, Any] = {
    "algorithm": "race",
    "settings": {"epochs": 8, "algorithm": "race"},
    "class_names": ["a", "b"],
    "train_loss": 2.0,
    "train_error_percent": 50.0,
    "val_loss": 1.0,
    "val_error_percent": 40.0,
    "legs": [
        ["no augmentation", 2],
        ["fork no group", 3],
        ["fork erasing", 3],
        ["look-ahead", 6],
    ],
    "epochs_finished": 14,
    "symmetries": {
        "HorizontalFlip": [0.8, 0.1],
        "VerticalFlip": [0.02, 0.03],
        "QuarterTurn": [None, None],
    },
    "symmetries_by_class": [],
    "n_held_out": 30,
    "n_validation": 20,
    "has_own_validation": False,
    "largest_gap": 0.15,
    "forks": {"no group": [1.5, 0.0, 0.0], "erasing": [1.25, -0.25, 0.05]},
    "taken": {"fork": "erasing", "operations": TAKEN},
}
SPACE = SPACES["recipe"]


def schedule(**changed: Any) -> Schedule:
    return Schedule(
        SPACE, row_of(SPACE, TAKEN).numpy()[None], provenance={**PROVENANCE, **changed}
    )


def test_sentences_name_what_holds_what_lowers_the_loss_and_what_is_left() -> None:
    findings = RaceFindings.of(PROVENANCE)
    assert findings is not None
    symmetries, forks, policy = race_sentences(findings)
    assert (
        "hold: VerticalFlip (2 +- 3 %); that do not hold: HorizontalFlip (80 +- 10 %);"
        " not decided" in symmetries
    )
    assert "error: erasing (-0.250 +- 0.050); did not: no fork." in forks
    assert policy == "The policy is that of the fork erasing: VerticalFlip, erasing."
    stopped = {
        **PROVENANCE,
        "epochs_finished": 2,
        "forks": {},
        "taken": {"fork": None, "operations": ["RandAugment"]},
    }
    unfinished = RaceFindings.of(stopped)
    assert unfinished is not None
    assert "2 have not" in race_sentences(unfinished)[-1]
    assert RaceFindings.of({}) is RaceFindings.of({**PROVENANCE, "forks": 3}) is None


def test_a_symmetry_of_some_classes_is_neither_holding_nor_broken() -> None:
    operations = [*TAKEN, "HorizontalFlip"]
    findings = RaceFindings.of(
        {
            **PROVENANCE,
            "symmetries_by_class": ["HorizontalFlip"],
            "taken": {"fork": "erasing", "operations": operations},
        }
    )
    assert findings is not None
    assert findings.holding == ["VerticalFlip"]
    assert symmetry_results(findings)["that hold for some classes"] == [
        "HorizontalFlip"
    ]
    assert "HorizontalFlip of some classes" in race_sentences(findings)[-1]
    # A recipe with a horizontal flip moves the images of all classes.
    assert not goes_with("photo", findings)


def test_groups_that_helped_only_together_are_named(tmp_path: Path) -> None:
    together = {
        "mixing": [1.49, -0.01, 0.02],
        "erasing": [1.48, -0.02, 0.03],
        "best 2": [1.4, -0.1, 0.02],
    }
    choice = {"fork": "best 2", "operations": ["erasing", "mixing"]}
    policy = schedule(forks={"no group": [1.5, 0.0, 0.0], **together}, taken=choice)
    findings = RaceFindings.of(policy.provenance)
    assert findings is not None
    assert findings.lower == [findings.winner] == ["erasing + mixing"]
    policy.save(tmp_path / "policy.json")
    assert "best 2" not in hba.write_report(tmp_path).read_text("utf-8")


@pytest.mark.parametrize("forks", [PROVENANCE["forks"], {}])
def test_the_page_shows_the_race_and_no_course_of_a_policy(
    forks: dict[str, Any], tmp_path: Path
) -> None:
    schedule(forks=forks).save(tmp_path / "policy.json")
    columns = ("epoch", "train_loss", "val_loss")
    rows = [
        columns,
        *((n + 1, 2 - 0.1 * n, 1.5 if n in (1, 4, 7) else "") for n in range(8)),
    ]
    (tmp_path / "metrics.csv").write_text(
        "".join(",".join(map(str, row)) + "\n" for row in rows)
    )
    page = hba.write_report(tmp_path).read_text("utf-8")
    assert "Which operations mattered" in page
    assert "Found by race in 14 epochs" in page
    assert ('<th scope="row">erasing ' in page) == bool(forks)
    for wrong in ("policy step", "It stopped after", "The policy over the epochs"):
        assert wrong not in page, wrong
    assert network_measured(PROVENANCE) == {}
    assert not [line for line in schedule_lines(schedule()) if "searched too" in line]


def test_what_each_seed_has_taken_is_said_of_searches_that_have_ended(
    tmp_path: Path,
) -> None:
    nothing_taken = {"taken": {"fork": "no group", "operations": []}}
    for seed, policy in enumerate(
        (schedule(), schedule(**nothing_taken), schedule(epochs_finished=5))
    ):
        (tmp_path / f"seed-{seed}").mkdir()
        policy.save(tmp_path / f"seed-{seed}" / "policy.json")
    sentences = OverSeeds.read(tmp_path).sentences
    assert sentences[1:] == (
        "Seed 0 takes VerticalFlip, erasing.",
        "Seed 1 takes no augmentation.",
    )
    assert "seed-2" in sentences[0]
