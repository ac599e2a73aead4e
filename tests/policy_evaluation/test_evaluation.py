"""Evaluation of several schedules side by side: rows, numbers and results.json."""

import json
import statistics
from pathlib import Path
from typing import Any

import pytest
import torch
from small_trainings import guarded_data, one_operation, tiny_data
from torch import nn

import hba
from hba.config.evaluation import EvaluationConfig
from hba.errors import RunError
from hba.policy_evaluation.callbacks import EvaluationPlan
from hba.schedule.schedule import Schedule
from hba.training.augmentation import Augmentation, ScheduleAugmentation
from hba.training.metrics import Measured
from hba.training.trainer import Trained, train

SETTINGS: dict[str, Any] = {
    "model": "mlp-8",
    "epochs": 3,
    "batch_size": 20,
    "device": "cpu",
    "seeds": 2,
}
INVERT = one_operation("Invert", [[0.0], [1.0]])
DIM = one_operation("Brightness", [[1.0, 0.5]])


def evaluate(
    schedule: Schedule | str | Path = INVERT, data: Any = None, **settings: Any
) -> hba.EvaluationResult:
    return hba.evaluate(
        schedule, data or tiny_data(), **{"against": "none", **SETTINGS, **settings}
    )


def made_up_errors(
    monkeypatch: pytest.MonkeyPatch, errors: dict[Schedule | None, list[float]]
) -> None:
    """Trainings end at once, with these errors per seed."""

    def train_at_once(
        config: EvaluationConfig,
        data: object,
        augmentation: Augmentation,
        seed: int,
        *arguments: object,
    ) -> Any:
        schedule = (
            augmentation.schedule
            if isinstance(augmentation, ScheduleAugmentation)
            else None
        )
        return Trained(nn.Identity(), Measured(0.0, errors[schedule][seed]))

    monkeypatch.setattr("hba.policy_evaluation.evaluation.train", train_at_once)


class Notes(hba.EvaluationCallback):
    """What a callback is told, and results.json at the end of each training."""

    def __init__(self, results: Path | None = None) -> None:
        self.results = results
        self.started_with = (0, 0)
        self.steps = 0
        self.trainings: list[tuple[str, int]] = []
        self.files: list[dict[str, Any]] = []

    def planned(self, plan: EvaluationPlan) -> None:
        self.started_with = (plan.n_trainings, plan.steps_per_training)

    def step_done(self) -> None:
        self.steps += 1

    def training_done(self, name: str, seed: int, *_: object) -> None:
        self.trainings.append((name, seed))
        if self.results is not None:
            self.files.append(json.loads(self.results.read_text(encoding="utf-8")))


def test_results_json_is_written_after_every_training(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made_up_errors(monkeypatch, {INVERT: [10.0, 12.0], None: [20.0, 25.0]})
    notes = Notes(tmp_path / "new" / "results.json")
    evaluate(out=tmp_path / "new", callback=notes)
    assert [
        [row["test_error_percent"] for row in file["rows"]] for file in notes.files
    ] == [
        [[10], []],
        [[10], [20]],
        [[10, 12], [20]],
        [[10, 12], [20, 25]],
    ]
    assert [row["seeds"] for row in notes.files[2]["rows"]] == [[0, 1], [0]]
    assert [file["rows"][1]["schedule_minus_row"] for file in notes.files[:2]] == [
        None,
        {"n_pairs": 1, "mean": -10, "interval": None},
    ]
    assert notes.files[0]["answer"]["against"] is None
    assert "One seed" in notes.files[1]["answer"]["sentence"]
    difference = notes.files[3]["rows"][1]["schedule_minus_row"]
    assert (
        difference["n_pairs"],
        difference["mean"],
        notes.files[3]["rows"][0]["schedule_minus_row"],
    ) == (
        2,
        -11.5,
        None,
    )
    with pytest.raises(RunError, match="exists already"):
        evaluate(out=tmp_path / "new")
    for row in notes.files[3]["rows"]:
        assert row["mean"] == statistics.mean(row["test_error_percent"])
        assert row["std"] == pytest.approx(statistics.stdev(row["test_error_percent"]))


def test_each_row_trains_with_its_own_schedule_whatever_stands_beside_it(
    tmp_path: Path,
) -> None:
    DIM.save(tmp_path / "dim.json")
    data, guard = guarded_data()

    class CountSteps(Notes):
        def step_done(self) -> None:
            super().step_done()
            # No training reads the test split before its last step.
            guard.step_done()

    notes = CountSteps()
    against = (str(tmp_path / "dim.json"), "none")
    result = evaluate(
        data=data,
        against=against,
        learning_rate=0.1,
        callback=notes,
        out=tmp_path / "out",
    )
    together = {row.name: row.test_error_percent for row in result.rows}
    # 40 images in batches of 20, 3 epochs; three rows with two seeds.
    assert (notes.started_with, notes.steps) == ((6, 6), 36)
    assert notes.trainings == [
        (name, seed) for seed in (0, 1) for name in ("schedule", "dim", "none")
    ]
    content = json.loads(
        (tmp_path / "out" / "results.json").read_text(encoding="utf-8")
    )
    assert content["settings"] == result.config.model_dump()
    assert (content["train_images"], content["test_images"], content["device"]) == (
        40,
        30,
        "cpu",
    )
    assert content["packages"]["torch"] == torch.__version__.split("+")[0]
    config = EvaluationConfig.make({**SETTINGS, "data": "tiny", "learning_rate": 0.1})
    for name, schedule in {"schedule": INVERT, "dim": DIM, "none": None}.items():
        alone = [
            train(
                config, tiny_data(), ScheduleAugmentation(schedule), seed
            ).test.error_percent
            for seed in (0, 1)
        ]
        assert together[name] == tuple(alone)
    assert len(set(together.values())) > 1, "the numbers can tell one row from another"
