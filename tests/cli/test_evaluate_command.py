"""hba evaluate: the table with its differences, the verdict, and how an interrupted evaluation goes on."""

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from hba.cli.main import main

import hba
from hba.config.evaluation import EvaluationConfig
from hba.policy_evaluation import BASELINES
from hba.policy_evaluation.baselines import TorchvisionPolicy
from hba.training.augmentation import Augmentation, ScheduleAugmentation
from hba.training.metrics import Confusion, Measured
from hba.training.trainer import Trained


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["evaluate", "digits", "--epochs", "1", "--out", "run", *arguments])


def planted(monkeypatch: pytest.MonkeyPatch, n_trainings: int = 100, by: signal.Signals = signal.SIGINT) -> None:
    """Trainings end at once, with 1, 2 and 4 % plus a little by seed; the signal comes in the one behind the last."""
    left = iter(range(n_trainings))

    def trained(config: EvaluationConfig, data: object, augmentation: Augmentation, seed: int, *_: object) -> Trained:
        if next(left, None) is None:
            signal.raise_signal(by)
        error = 1.0 if isinstance(augmentation, ScheduleAugmentation) else 4.0
        error = 2.0 if isinstance(augmentation, TorchvisionPolicy) else error
        return Trained(torch.nn.Identity(), Measured(0.0, error + (0.1 * seed if error < 2 else 0.05 * seed)))

    monkeypatch.setattr("hba.policy_evaluation.jobs.train", trained)


def cells_of(lines: list[str]) -> Iterator[list[str]]:
    for line in lines:
        if line.startswith("│"):
            yield [cell.strip() for cell in line.strip("│").split("│")]


def test_the_table_shows_paired_differences_and_the_verdict_stands_below(monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch)
    result = run("--against", "none,randaugment", "--seeds", "3")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    # Differences -1, -0.95 and -0.9: deviation 0.05, times 4.303 over the root of 3.
    assert list(cells_of(lines)) == [
        ["digits", "1.10 %", "0.10 %", "0.000", "3", "1.00  1.10  1.20", ""],
        ["none", "4.05 %", "0.05 %", "0.000", "3", "4.00  4.05  4.10", "-2.95 (-3.07 to -2.83)"],
        ["randaugment", "2.05 %", "0.05 %", "0.000", "3", "2.00  2.05  2.10", "-0.95 (-1.07 to -0.83)"],
    ]
    assert "digits minus this, 95 % interval" in result.stdout
    verdict = (
        "Verdict: better than the best other, randaugment: 0.95 points lower test error (95 % interval 0.83 to 1.07, "
        "3 paired seeds). The interval is over training seeds, for one schedule, one split and one test set. 3 seeds "
        "show their spread only roughly: to be sure, evaluate anew with --seeds 10 --first-seed 3."
    )
    assert lines[-3:] == [verdict, f"Results: {Path('run/results.json')}", f"Report: {Path('run/report.html')}"]
    content = json.loads(Path("run/results.json").read_text(encoding="utf-8"))
    assert content["verdict"] == verdict
    assert content["verdict_details"] == {
        "kind": "better", "against": "randaugment", "difference": pytest.approx(-0.95),
        "interval": content["rows"][2]["schedule_minus_row"]["interval"], "seeds": 3,
    }  # fmt: skip
    assert content["rows"][2]["schedule_minus_row"] == {
        "n_pairs": 3, "mean": pytest.approx(-0.95), "interval": [pytest.approx(-1.0742, abs=1e-4),
        pytest.approx(-0.8258, abs=1e-4)], "equal_pairs": False,
    }  # fmt: skip


def test_without_another_row_there_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch)
    result = run("--against", "", "--seeds", "2")
    assert [row[:2] for row in cells_of(result.stdout.splitlines())] == [["digits", "1.05 %"]]
    assert "Verdict" not in result.stdout


def rows_of(path: str) -> Any:
    return json.loads(Path(path).read_text(encoding="utf-8"))["rows"]


@pytest.mark.parametrize("images", [(90, 10), (50, 50)])
def test_balanced_accuracy_is_shown_where_classes_are_unbalanced(
    monkeypatch: pytest.MonkeyPatch, images: tuple[int, int]
) -> None:
    large, small = images

    def trained(config: EvaluationConfig, data: object, augmentation: Augmentation, seed: int, *_: object) -> Trained:
        # About half of the second class is right with the schedule, nothing without it; of the first all but one image.
        right = small // 2 + seed if isinstance(augmentation, ScheduleAugmentation) else 0
        counts = torch.tensor([[large - 1, 1], [small - right, right]])
        return Trained(torch.nn.Identity(), Measured(0.0, 100.0 - large - right, Confusion.of(counts)))

    monkeypatch.setattr("hba.policy_evaluation.jobs.train", trained)
    shown = run("--seeds", "2").stdout
    assert ("Balanced accuracy" in shown) == (large > small)
    if large > small:
        # Recalls 89/90 and 5/10, 6/10; against 89/90 and 0: means 74.44 and 79.44, 49.44.
        assert list(cells_of(shown.splitlines()))[2:] == [
            ["digits", "76.94 %", "3.54 %", ""],
            ["none", "49.44 %", "0.00 %", "+27.50 (-4.27 to +59.27)"],
        ]


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_evaluation_goes_on_with_the_words_that_it_said(
    by: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(by)
    planted(monkeypatch, n_trainings=3, by=by)
    result = run("--seeds", "2")
    assert signal.getsignal(by) == before
    assert result.exit_code == 130
    command = re.findall(r"the same command with (.*) does the others", result.stderr)
    assert command == ["--out run --resume"]
    assert [row["seeds"] for row in rows_of("run/results.json")] == [[0, 1], [0]]
    planted(monkeypatch)
    assert "run/results.json exists already: add --resume" in run("--seeds", "2").stderr.replace(os.sep, "/")
    result = run("--seeds", "2", "--resume")
    assert result.exit_code == 0
    assert "trainings that are kept: 3\nnone, seed 1: test error 4.05 %\n" in result.stdout
    assert [row["seeds"] for row in rows_of("run/results.json")] == [[0, 1], [0, 1]]


def test_another_spread_is_said_trained_with_and_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[float, float]] = []

    def trained(config: EvaluationConfig, data: object, augmentation: Augmentation, *_: object) -> Trained:
        if isinstance(augmentation, ScheduleAugmentation):
            spread = augmentation.schedule.spread
            seen.append((spread.min(), spread.max()))
        return Trained(torch.nn.Identity(), Measured(0.0, 1.0))

    monkeypatch.setattr("hba.policy_evaluation.jobs.train", trained)
    result = run("--against", "random,point", "--seeds", "1", "--jobs", "1", "--spread", "0.5")
    assert "\nspread of all schedules: 0.5 logits\n" in result.stdout
    # Probabilities of the shipped schedule have no spread, and get none.
    assert seen == [(0.0, 0.5), (0.0, 0.5), (0.0, 0.0)]
    assert json.loads(Path("run/results.json").read_text(encoding="utf-8"))["settings"]["spread"] == 0.5
    refused = run("--against", "random,point", "--seeds", "1", "--spread", "0", "--resume")
    assert "a resumed evaluation keeps its settings; run has spread 0.5 (now 0.0)" in refused.stderr


def test_resume_needs_a_folder() -> None:
    result = CliRunner().invoke(main, ["evaluate", "digits", "--resume"])
    assert result.exit_code == 2
    assert result.stderr == "hba: error: --resume needs --out, the folder of the evaluation to resume\n"


def test_the_help_explains_every_name() -> None:
    text = CliRunner().invoke(main, ["evaluate", "--help"]).stdout
    explained = text.partition("Options:")[0]
    assert all(re.search(rf"^ +.*\b{name}\b", explained, re.MULTILINE) for name in BASELINES)
    # A line may end behind a hyphen.
    assert ", ".join(BASELINES) in " ".join(text.split()).replace("- ", "-")


@pytest.mark.parametrize("option", ["--flip", "--random-resized-crop", "--skip-broken"])
def test_the_help_of_a_switch_says_where_its_default_comes_from(option: str) -> None:
    shown = " ".join(CliRunner().invoke(main, ["evaluate", "--help-all"]).stdout.split())
    (text,) = re.findall(rf"{option} / --no{option[1:]} (.*?)\]", shown)
    assert text.endswith("[default: as in the search")


def test_a_search_that_has_seen_test_images_is_refused_in_one_line_unless_that_is_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planted(monkeypatch)
    refused = run("--split-seed", "1")
    assert (refused.exit_code, refused.stdout, Path("run").exists()) == (2, "", False)
    assert re.fullmatch(r"hba: error: the search of digits has seen 4\d\d of the 1097 test images .*\n", refused.stderr)
    assert refused.stderr.endswith("split seed, or add --allow-seen\n")
    allowed = run("--split-seed", "1", "--allow-seen", "--against", "")
    assert allowed.exit_code == 0
    warning = r"The search of digits has seen 4\d\d of the 1097 test images: its error on them is too low"
    assert len(re.findall(warning, allowed.stdout)) == 2, "before the trainings, and below the table without a verdict"


def test_explain_shows_where_each_setting_comes_from_and_trains_nothing() -> None:
    result = CliRunner().invoke(main, ["evaluate", "digits", "--explain", "--learning-rate", "0.3"])
    assert (result.exit_code, result.stderr) == (0, "")
    rows = {cells[0]: cells[1:] for cells in cells_of(result.stdout.splitlines())}
    searched = hba.load_policy("digits").provenance["settings"]
    assert rows["learning_rate"] == ["0.3", "given"]
    assert rows["batch_size"] == [str(searched["batch_size"]), "search"]
    assert rows["split_seed"] == [str(searched["split_seed"]), "images of the search"]
    assert rows["seeds"] == ["3", "default"]
    assert set(rows) == set(EvaluationConfig.model_fields) - {"val_size"}
    assert list(Path().iterdir()) == []
    preset = CliRunner().invoke(main, ["evaluate", "digits", "--explain", "--preset", "cifar10-wrn-40-2"])
    assert "preset cifar10-wrn-40-2" in preset.stdout


@pytest.mark.parametrize("arguments", [["--epochs", "0"], ["nowhere"]])
def test_explain_refuses_what_an_evaluation_refuses(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, ["evaluate", "digits", "--explain", *arguments])
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)


def test_json_gives_programs_the_results_and_people_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch)
    result = run("--seeds", "2", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == json.loads(Path("run/results.json").read_text(encoding="utf-8"))
    assert "4 (digits, none; 2 seeds)" in result.stderr
