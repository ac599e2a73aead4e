"""What callbacks get: the plan, and TensorBoard events, read again by TensorBoard's own
reader.
"""

import csv
from pathlib import Path
from typing import Any

import pytest
from search_problems import SMALL_SETTINGS, StopAfter, WithDropout, small_data

import hba
from hba.utils.progress import CallbackList

SETTINGS: dict[str, Any] = {**SMALL_SETTINGS, "epochs": 4, "validate_every": 2}


@pytest.mark.slow
def test_a_resumed_search_has_each_epoch_once_in_its_events(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs pip install '.[tensorboard]'")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logger = hba.TensorBoardLogger(tmp_path / "events")
    callbacks: Any = CallbackList(logger, StopAfter(7))
    hba.search(small_data(), out=tmp_path, callback=callbacks, **SETTINGS)
    hba.search(
        small_data(),
        out=tmp_path,
        resume=True,
        callback=hba.TensorBoardLogger(tmp_path / "events"),
    )
    events = EventAccumulator(
        str(tmp_path / "events"), size_guidance={"scalars": 0}
    ).Reload()

    def scalars(tag: str) -> dict[int, float]:
        return {event.step: event.value for event in events.Scalars(tag)}

    assert [event.step for event in events.Scalars("search/train_loss")] == [1, 2, 3, 4]
    with (tmp_path / "metrics.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for name in ("train_loss", "val_loss", "train_error_percent", "val_error_percent"):
        expected = {int(row["epoch"]): float(row[name]) for row in rows if row[name]}
        assert scalars(f"search/{name}") == pytest.approx(expected, rel=1e-4), name
    schedule = hba.load_policy(tmp_path)
    for column, name in enumerate(schedule.space.names):
        expected = dict(enumerate(schedule.values[:, column].tolist(), start=1))
        assert scalars(name.replace(".", "/")) == pytest.approx(
            expected, rel=1e-5, abs=1e-6
        ), name


class Plans(hba.SearchCallback):
    def planned(self, plan: hba.SearchPlan) -> None:
        self.plan = plan


def test_the_plan_names_regularizers_with_their_values() -> None:
    callback = Plans()
    tune = "augmentation,dropout,weight-decay,label-smoothing"
    settings: dict[str, Any] = {
        **SMALL_SETTINGS,
        "epochs": 1,
        "operations": ("Rotate",),
        "tune": tune,
        "algorithm": "joint",
    }
    schedule = hba.search(
        small_data(), network=WithDropout(), callback=callback, **settings
    ).schedule
    assert schedule is not None
    assert callback.plan.operations == ("Rotate",)
    began = {
        regularizer.name: regularizer.initial
        for regularizer in schedule.space.regularizers
    }
    assert dict(callback.plan.regularizers) == pytest.approx(began, rel=1e-5)
