"""TensorBoard events read again by TensorBoard's own reader."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from small_trainings import one_operation, tiny_data

import hba
from hba.policy_evaluation import TensorBoardLogger
from hba.training.metrics import Measured
from hba.utils.progress import CallbackList

DIM = one_operation("Brightness", [[1.0, 0.5]])
SETTINGS: dict[str, Any] = {
    "model": "mlp-8",
    "epochs": 2,
    "batch_size": 20,
    "device": "cpu",
    "seeds": 1,
    "against": "none",
}


class Told(hba.EvaluationCallback):
    def __init__(self) -> None:
        self.trainings: dict[str, tuple[Sequence[Measured], Measured]] = {}

    def training_done(
        self, name: str, seed: int, test: Measured, epochs: Sequence[Measured]
    ) -> None:
        self.trainings[f"{name}, seed {seed}"] = (epochs, test)


def scalars(folder: Path, tag: str) -> dict[int, float]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return {event.step: event.value for event in events.Scalars(f"evaluation/{tag}")}


def test_each_training_has_its_epochs_and_its_test(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs pip install '.[tensorboard]'")
    events = Told()
    callbacks: Any = CallbackList(events, TensorBoardLogger(tmp_path))
    result = hba.evaluate(DIM, tiny_data(), callback=callbacks, **SETTINGS)
    assert {folder.name for folder in tmp_path.iterdir()} == set(events.trainings)
    for name, (epochs, test) in events.trainings.items():
        for column in ("loss", "error_percent"):
            expected = {
                epoch: getattr(values, column)
                for epoch, values in enumerate(epochs, start=1)
            }
            assert scalars(tmp_path / name, f"train_{column}") == pytest.approx(
                expected, rel=1e-6
            ), name
            assert scalars(tmp_path / name, f"test_{column}") == pytest.approx(
                {2: getattr(test, column)}, rel=1e-6
            )
    balanced = result.rows[1].by_seed("balanced_accuracy")[0]
    assert scalars(
        tmp_path / "none, seed 0", "test_balanced_accuracy_percent"
    ) == pytest.approx({2: balanced})
