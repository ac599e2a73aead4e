"""hba evaluate: its table and answer, what it takes over, and how an interrupted
evaluation is resumed.
"""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import Result
from commands import make_images, rows_in, run as run_command, said

from hba.config.evaluation import EvaluationConfig
from hba.errors import DivergedError
from hba.training.augmentation import Augmentation, ScheduleAugmentation
from hba.training.metrics import Confusion, Measured
from hba.training.trainer import Trained

EVALUATE = ("evaluate", "digits", "--epochs", "1")
pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")


def run(*arguments: str) -> Result:
    return run_command(*EVALUATE, "--out", "run", *arguments)


def replace_trainings(
    monkeypatch: pytest.MonkeyPatch,
    n_trainings: int = 100,
    then: Callable[[], object] = lambda: None,
) -> None:
    """Trainings end at once, with 1 % with a schedule, 4 % without and 2 % otherwise,
    plus a little by seed.
    """
    left = iter(range(n_trainings))

    def trained(
        config: EvaluationConfig,
        data: object,
        augmentation: Augmentation,
        seed: int,
        *_: object,
    ) -> Trained:
        if next(left, None) is None:
            then()
        is_schedule = getattr(augmentation, "schedule", None) is not None
        other = 4.0 if isinstance(augmentation, ScheduleAugmentation) else 2.0
        error = 1 + 0.1 * seed if is_schedule else other + 0.05 * seed
        # Of the second class, half is right with the schedule, nothing without.
        counts = torch.tensor(
            [[89, 1], [5 - seed if is_schedule else 10, 5 + seed if is_schedule else 0]]
        )
        return Trained(torch.nn.Identity(), Measured(0.0, error, Confusion.of(counts)))

    monkeypatch.setattr(PATCHED, trained)


PATCHED = "hba.policy_evaluation.evaluation.train"


def interrupt() -> None:
    signal.raise_signal(signal.SIGTERM)


def diverge() -> None:
    raise DivergedError("the loss is not finite")


def results() -> Any:
    return json.loads(Path("run/results.json").read_text(encoding="utf-8"))


def test_the_table_shows_paired_differences_below_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replace_trainings(monkeypatch)
    result = run("--seeds", "3")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    rows = {row[0]: row[1:] for row in rows_in(lines)[:3]}
    assert rows["digits"] == ["1.10", "0.10", "1.00  1.10  1.20", ""]
    assert [rows["none"][0], rows["randaugment"][0]] == [
        f"{row['mean']:.2f}" for row in results()["rows"][1:]
    ]
    difference = results()["rows"][1]["schedule_minus_row"]
    shown = "{:+.2f} ({:+.2f} to {:+.2f})".format(
        difference["mean"], *difference["interval"]
    )
    assert rows["none"][-1] == shown
    assert lines.count(results()["answer"]["sentence"]) == 1
    assert lines[-2:] == ["Results: run/results.json", "Report: run/report.html"]
    # The classes are unbalanced: recalls 89/90 and 5/10, 6/10, 7/10, against 89/90 and
    # 0.
    balanced = {row[0]: row[1:] for row in rows_in(lines)[6:]}
    assert (balanced["digits"][0], balanced["none"][0]) == ("79.44", "49.44")


def test_an_interrupted_evaluation_is_resumed_as_it_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    replace_trainings(monkeypatch, 3, interrupt)
    result = run("--seeds", "2", "--jobs", "1")
    assert signal.getsignal(signal.SIGTERM) == before
    assert result.exit_code == 130
    assert "--out run --resume" in result.stderr
    assert [row["seeds"] for row in results()["rows"]] == [[0], [0], [0]]
    replace_trainings(monkeypatch)
    assert "--resume" in run("--seeds", "2").stderr
    assert run("--seeds", "3", "--jobs", "1", "--resume").exit_code == 0
    assert [row["seeds"] for row in results()["rows"]] == [[0, 1, 2]] * 3
    assert "spread" in run("--seeds", "3", "--spread", "0", "--resume").stderr


def test_a_training_that_diverged_does_not_promise_to_be_resumed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replace_trainings(monkeypatch, 1, diverge)
    result = run("--jobs", "1")
    kept, message = result.stderr.splitlines()
    assert (result.exit_code, "trainings: 1" in kept, "--resume" in kept) == (
        2,
        True,
        False,
    )
    assert message.startswith("hba: error: none, seed 0: ")


def test_another_spread_is_used_in_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[float, float]] = []

    def trained(
        config: EvaluationConfig, data: object, augmentation: Augmentation, *_: object
    ) -> Trained:
        if (
            isinstance(augmentation, ScheduleAugmentation)
            and augmentation.schedule is not None
        ):
            seen.append(
                (augmentation.schedule.spread.min(), augmentation.schedule.spread.max())
            )
        return Trained(torch.nn.Identity(), Measured(0.0, 1.0))

    monkeypatch.setattr(PATCHED, trained)
    words = (
        "--against",
        "start,point",
        "--seeds",
        "1",
        "--jobs",
        "1",
        "--spread",
        "0.5",
    )
    monkeypatch.setattr("sys.argv", ["hba", *EVALUATE, *words, "--out=run"])
    result = run(*words)
    again = (
        "hba evaluate digits --epochs 1 --against start,point --jobs 1 --spread 0.5"
        " --out run --resume --seeds 5"
    )
    assert f"To be surer: {again}: about " in result.stdout
    assert "spread of all schedules: 0.5" in result.stdout
    # Probabilities of the shipped schedule do not vary.
    assert seen == [(0.0, 0.5), (0.0, 0.5), (0.0, 0.0)]


def test_json_gives_programs_the_results_and_people_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replace_trainings(monkeypatch)
    result = run("--seeds", "2", "--json")
    assert json.loads(result.stdout) == results()
    assert "(digits, none, randaugment; 2 seeds)" in result.stderr


def test_images_that_a_search_has_seen_are_refused_unless_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replace_trainings(monkeypatch)
    refused = run("--split-seed", "1")
    assert (refused.exit_code, refused.stdout, Path("run").exists()) == (2, "", False)
    assert "--allow-seen" in refused.stderr
    assert run("--split-seed", "1", "--allow-seen", "--against", "").exit_code == 0


def test_an_evaluation_is_repeated_by_its_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_images(Path("pets"))
    small = (
        "--model",
        "mlp-8",
        "--image-size",
        "8",
        "--batch-size",
        "8",
        "--device",
        "cpu",
        "--jobs",
        "1",
    )
    lines = said(
        "evaluate",
        "digits",
        "pets",
        "--epochs",
        "1",
        "--seeds",
        "1",
        *small,
        "--out",
        "run",
    )
    assert lines[0].startswith("19 training and 5 test images of 2 classes")
    said(
        "evaluate",
        "digits",
        "--config",
        "run",
        "--out",
        "again",
        "--jobs",
        "1",
        "--device",
        "cpu",
    )
    again = json.loads(Path("again/results.json").read_text(encoding="utf-8"))
    errors = (
        [row["test_error_percent"] for row in record["rows"]]
        for record in (results(), again)
    )
    assert next(errors) == next(errors)
    refused = run_command(
        "evaluate", "digits", "--config", "run", "--preset", "cifar10-wrn-40-2"
    )
    assert (refused.exit_code, "preset" in refused.stderr) == (2, True)
