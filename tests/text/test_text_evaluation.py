"""Evaluations of schedules of text: rows, baselines, resuming, and what is refused."""

import dataclasses
import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_texts import SMALL, small_search, tokens_of, training_config, write_texts
from small_trainings import tiny_data
from tuned_schedules import both

import hba
from hba.errors import DataError, HbaError, RunError
from hba.policy_evaluation.callbacks import TrainingsBar
from hba.schedule.schedule import Schedule
from hba.text.evaluation import TextEvaluation, TextTraining, train


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="module")
def schedule(texts: Path) -> Schedule:
    """With rows that differ more than those of so short a search."""
    searched = small_search(texts).schedule
    assert searched is not None
    values = np.linspace(0.05, 0.4, searched.values.size).reshape(searched.values.shape)
    return dataclasses.replace(searched, values=values)


class Counting(TrainingsBar):
    def __init__(self) -> None:
        super().__init__()
        self.begun: list[tuple[int, int, str, int]] = []
        self.steps = 0
        self.done: list[str] = []

    def begin(
        self, n_trainings: int, steps_per_training: int, unit: str, per_step: int
    ) -> None:
        self.begun.append((n_trainings, steps_per_training, unit, per_step))

    def step_done(self) -> None:
        self.steps += 1

    def ended(self, text: str) -> None:
        self.done.append(text.partition(":")[0])


def evaluate(schedule: Schedule | Path, **settings: Any) -> TextEvaluation:
    return hba.text.evaluate(
        schedule, **{"against": (), "seeds": 1, "device": "cpu", **settings}
    )


def constant(schedule: Schedule, row: list[float]) -> Schedule:
    return Schedule(schedule.space, np.array([row] * 3), provenance=schedule.provenance)


def test_every_row_is_trained_with_every_seed_and_baselines_are_constant(
    schedule: Schedule, texts: Path
) -> None:
    callback = Counting()
    evaluation = evaluate(
        schedule, against="none,start,static,final", seeds=2, callback=callback
    ).trainings
    rows = {
        "schedule": schedule,
        "none": constant(schedule, [0.0] * 7),
        "start": constant(schedule, [0.05] * 7),
        "static": constant(schedule, schedule.values.mean(0).tolist()),
        "final": constant(schedule, schedule.values[-1].tolist()),
    }
    assert callback.done == [
        f"{name}, seed {seed}" for seed in range(2) for name in rows
    ]
    assert (callback.begun, callback.steps) == ([(10, 28, "words", 20)], 280)
    for trained, (name, row) in zip(evaluation[5:], rows.items(), strict=True):
        val_losses, test_loss = train(
            training_config(), tokens_of(texts), 12, row, seed=1
        )
        assert trained == TextTraining(name, 1, val_losses[-1], test_loss)
    assert len({trained.test_loss for trained in evaluation[:5]}) == 5, "rows differ"


def test_a_resumed_evaluation_trains_only_what_is_missing(
    schedule: Schedule, tmp_path: Path
) -> None:
    out = tmp_path / "evaluation"
    settings = {"epochs": 1}
    before = evaluate(schedule, against="none", seeds=2, out=out, **settings).trainings
    callback = Counting()
    more: dict[str, Any] = {**settings, "against": "none,final", "seeds": 3}
    evaluation = evaluate(
        schedule, out=out, resume=True, callback=callback, **more
    ).trainings
    assert callback.done == [
        "final, seed 0",
        "final, seed 1",
        "schedule, seed 2",
        "none, seed 2",
        "final, seed 2",
    ]
    assert {*before} < {*evaluation}
    assert evaluation == evaluate(schedule, **more).trainings
    stored = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert len(stored["trainings"]) == 9
    elsewhere = write_texts(tmp_path / "elsewhere", seed=1)
    for other, options in (
        (constant(schedule, [0.2] * 7), settings),
        (schedule, {"epochs": 2}),
        (schedule, {"epochs": 1, "data": elsewhere}),
    ):
        with pytest.raises(RunError, match="is of another schedule, text or settings"):
            evaluate(other, out=out, resume=True, **options)
    with pytest.raises(RunError, match="--resume"):
        evaluate(schedule, out=out, **settings)


def test_settings_are_those_of_the_search_unless_they_are_given(
    schedule: Schedule, texts: Path
) -> None:
    bare = dataclasses.replace(schedule, provenance={})
    assert evaluate(bare, data=texts, **SMALL) == evaluate(schedule)


def test_what_no_training_could_use_is_refused(
    schedule: Schedule, texts: Path, tmp_path: Path
) -> None:
    bare = dataclasses.replace(schedule, provenance={})
    for policy, options, error, named in (
        (bare, {}, HbaError, "data"),
        (
            schedule,
            {"data": write_texts(tmp_path, {"train": 50, "valid": 34})},
            DataError,
            r"test\.txt",
        ),
        (schedule, {"against": "nothing"}, HbaError, "nothing"),
        (schedule, {"seeds": 0}, HbaError, "seeds"),
        (schedule, {"learning_rate": 1e38}, HbaError, "learning rate"),
        (tmp_path / "nowhere.json", {}, HbaError, r"nowhere\.json"),
        (both(), {"data": texts}, HbaError, "Rotate"),
    ):
        with pytest.raises(error, match=named):
            evaluate(policy, **options)
    with pytest.raises(HbaError, match="hba evaluate-text"):
        hba.evaluate(schedule, tiny_data(), model="wrn-10-1", device="cpu")


@pytest.mark.parametrize(
    ("losses", "verdict"),
    [
        ([2.0, 2.5, 2.25], "no difference shown"),
        ([2.0, 2.25, 2.75], "lower loss"),
        ([4.0, 4.3, 4.8], "higher loss"),
    ],
)
def test_differences_are_of_pairs_with_the_same_seed(
    losses: list[float], verdict: str
) -> None:
    none = [2.5, 2.75, 3.3]
    by_row = {"schedule": losses, "none": none}
    trainings = (
        TextTraining(name, seed, 9.0, test_loss)
        for name, losses_of_row in by_row.items()
        for seed, test_loss in enumerate(losses_of_row)
    )
    first, _, last = TextEvaluation(tuple(trainings)).lines()
    differences = [loss - other for loss, other in zip(losses, none, strict=True)]
    half = 4.302653 * statistics.stdev(differences) / 3**0.5
    mean = statistics.fmean(differences)
    perplexities = np.exp(losses)
    assert first.startswith(
        f"schedule   perplexity {np.mean(perplexities):.1f} +-"
        f" {np.std(perplexities, ddof=1):.1f} "
    )
    assert last.startswith(
        f"schedule - none: {mean:+.3f} ({mean - half:+.3f} to {mean + half:+.3f}) nats"
        " a word"
    )
    assert last.endswith(verdict)
