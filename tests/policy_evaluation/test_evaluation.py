"""Evaluation of several schedules side by side: rows, numbers, results.json, and settings taken from the search."""

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
from hba.policy_search.config import SearchConfig
from hba.schedule.schedule import Schedule
from hba.training.augmentation import Augmentation, ScheduleAugmentation
from hba.training.metrics import Measured
from hba.training.trainer import Trained, train

SETTINGS = {"model": "wrn-10-1", "epochs": 3, "batch_size": 20, "device": "cpu", "seeds": 2}
INVERT = one_operation("Invert", [[0.0], [1.0]])
DIM = one_operation("Brightness", [[1.0, 0.5]])


def evaluate(schedule: Schedule | str | Path = INVERT, data: Any = None, **settings: Any) -> hba.EvaluationResult:
    return hba.evaluate(schedule, data or tiny_data(), **{**SETTINGS, **settings})


def made_up_errors(monkeypatch: pytest.MonkeyPatch, errors: dict[Schedule | None, list[float]]) -> None:
    """Trainings end at once, with these errors per seed."""

    def trained(config: EvaluationConfig, data: object, augmentation: Augmentation, seed: int, *others: object) -> Any:
        schedule = augmentation.schedule if isinstance(augmentation, ScheduleAugmentation) else None
        return Trained(nn.Identity(), Measured(0.0, errors[schedule][seed]))

    monkeypatch.setattr("hba.policy_evaluation.jobs.train", trained)


class Notes(hba.EvaluationCallback):
    """What a callback is told, and results.json at the end of each training."""

    def __init__(self, results: Path | None = None) -> None:
        self.results, self.started_with, self.steps = results, (0, 0), 0
        self.trainings: list[tuple[str, int, float]] = []
        self.files: list[dict[str, Any]] = []

    def planned(self, plan: EvaluationPlan) -> None:
        self.started_with = (plan.n_trainings, plan.steps_per_training)

    def step_done(self) -> None:
        self.steps += 1

    def training_done(self, name: str, seed: int, test_error_percent: float) -> None:
        self.trainings.append((name, seed, test_error_percent))
        if self.results is not None:
            self.files.append(json.loads(self.results.read_text(encoding="utf-8")))


def test_results_json_is_written_after_every_training(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made_up_errors(monkeypatch, {INVERT: [10.0, 12.0], None: [20.0, 25.0]})
    notes = Notes(tmp_path / "new" / "results.json")
    evaluate(out=tmp_path / "new", callback=notes)
    assert [[row["test_error_percent"] for row in file["rows"]] for file in notes.files] == [
        [[10], []],
        [[10], [20]],
        [[10, 12], [20]],
        [[10, 12], [20, 25]],
    ]
    assert [row["seeds"] for row in notes.files[2]["rows"]] == [[0, 1], [0]]
    assert [file["rows"][1]["schedule_minus_row"] for file in notes.files[:2]] == [
        None,
        {"n_pairs": 1, "mean": -10, "interval": None, "equal_pairs": False},
    ]
    assert notes.files[0]["verdict"] is None
    assert "one seed" in notes.files[1]["verdict"]
    difference = notes.files[3]["rows"][1]["schedule_minus_row"]
    assert (difference["n_pairs"], difference["mean"], notes.files[3]["rows"][0]["schedule_minus_row"]) == (
        2,
        -11.5,
        None,
    )
    with pytest.raises(RunError, match="exists already"):
        evaluate(out=tmp_path / "new")
    for row in notes.files[3]["rows"]:
        assert row["mean"] == statistics.mean(row["test_error_percent"])
        assert row["std"] == pytest.approx(statistics.stdev(row["test_error_percent"]))


def test_each_row_trains_with_its_own_schedule_whatever_stands_beside_it(tmp_path: Path) -> None:
    DIM.save(tmp_path / "dim.json")
    data, guard = guarded_data()

    class CountSteps(Notes):
        def step_done(self) -> None:
            super().step_done()
            # No training reads the test split before its last step.
            guard.step_done()

    notes, against = CountSteps(), (str(tmp_path / "dim.json"), "none")
    result = evaluate(data=data, against=against, learning_rate=0.1, callback=notes, out=tmp_path / "out")
    together = {row.name: row.test_error_percent for row in result.rows}
    # 40 images in batches of 20, 3 epochs; three rows with two seeds.
    assert (notes.started_with, notes.steps) == ((6, 6), 36)
    assert [(name, seed) for name, seed, _ in notes.trainings] == [
        (name, seed) for seed in (0, 1) for name in ("schedule", "dim", "none")
    ]
    content = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    assert content["settings"] == result.config.model_dump()
    assert (content["train_images"], content["test_images"], content["device"]) == (40, 30, "cpu")
    assert content["packages"]["torch"] == torch.__version__.split("+")[0]
    config = EvaluationConfig.make({**SETTINGS, "data": "tiny", "learning_rate": 0.1})
    for name, schedule in {"schedule": INVERT, "dim": DIM, "none": None}.items():
        alone = [train(config, tiny_data(), ScheduleAugmentation(schedule), seed).test.error_percent for seed in (0, 1)]
        assert together[name] == tuple(alone)
    assert len(set(together.values())) > 1, "the numbers can tell one row from another"


class Named(Exception):
    """Ends an evaluation once its settings are known."""


def config_of(schedule: Schedule, data: str, **settings: Any) -> EvaluationConfig:
    """The settings with which an evaluation on a dataset of that name would train."""
    configs: list[EvaluationConfig] = []

    class Stop(hba.EvaluationCallback):
        def planned(self, plan: EvaluationPlan) -> None:
            configs.append(plan.config)
            raise Named

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hba.policy_evaluation.evaluation.load_evaluation_data", lambda *_: tiny_data())
        with pytest.raises(Named):
            hba.evaluate(schedule, data, callback=Stop(), **settings)
    return configs[0]


SEARCHED = SearchConfig(
    data="cats", model="wrn-16-3", epochs=7, batch_size=9, learning_rate=0.3, weight_decay=0.2, device="cpu",
    image_size=20, split_seed=4, data_root="elsewhere", skip_broken=True, flip=True, crop_padding=3, cutout_size=5,
    train_size=50, val_size=60, seed=8,
)  # fmt: skip
FOR_TRAINING = {"model": "wrn-16-3", "epochs": 7, "batch_size": 9, "learning_rate": 0.3, "weight_decay": 0.2}
FOR_IMAGES = {"image_size": 20, "split_seed": 4, "data_root": "elsewhere", "skip_broken": True}
BASELINE = {"flip": True, "crop_padding": 3, "cutout_size": 5}
UNSET = {"image_size": None, "split_seed": 0, "data_root": "data", "skip_broken": False}
NO_BASELINE = {"flip": None, "crop_padding": None, "cutout_size": None}
TABLE_11_CIFAR10 = {"learning_rate": 0.1, "weight_decay": 0.0005, "epochs": 200, "batch_size": 128}


def searched_schedule(**settings: Any) -> Schedule:
    searched = SEARCHED.model_copy(update=settings)
    return Schedule(INVERT.space, INVERT.values, provenance={"settings": searched.model_dump()})


@pytest.mark.parametrize(
    ("schedule", "data", "expected"),
    [
        (searched_schedule(), "cats", {**FOR_TRAINING, **FOR_IMAGES, **BASELINE}),
        (searched_schedule(), "dogs", {**FOR_TRAINING, **FOR_IMAGES, **BASELINE}),
        (searched_schedule(), "cifar10", {**FOR_TRAINING, **TABLE_11_CIFAR10, **UNSET, **NO_BASELINE}),
        (
            searched_schedule(data="cifar10"),
            "cifar10",
            {**FOR_TRAINING, **TABLE_11_CIFAR10, **FOR_IMAGES, **BASELINE},
        ),
        (INVERT, "dogs", {"model": "wrn-16-2", "epochs": 200, "batch_size": 128, **UNSET, **NO_BASELINE}),
    ],
    ids=["the same data", "a folder that moved", "cifar10", "searched on cifar10", "no provenance"],
)
def test_settings_come_from_the_search_and_from_table_11(
    schedule: Schedule, data: str, expected: dict[str, Any]
) -> None:
    config = config_of(schedule, data).model_dump()
    assert {name: config[name] for name in expected} == expected
    assert (config["data"], config["train_size"], config["seeds"]) == (data, None, 3)


def test_settings_given_here_come_before_those_of_the_search_and_table_11() -> None:
    given = {"epochs": 2, "learning_rate": 0.7, "model": "wrn-10-2", "image_size": 16, "flip": False, "train_size": 30}
    for data in ("cats", "cifar10"):
        config = config_of(searched_schedule(), data, **given).model_dump()
        assert {name: config[name] for name in given} == given
