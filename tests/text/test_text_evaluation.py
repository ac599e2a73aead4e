"""Evaluations of schedules of text: rows, baselines, what is kept, and what is refused."""

import dataclasses
import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from search_problems import small_data
from small_texts import SMALL, small_search, tokens_of, training_config, write_texts
from tuned_schedules import alone, both

import hba
from hba.data import EvaluationData
from hba.errors import DataError, HbaError, RunError, ScheduleError, SettingsError
from hba.schedule.schedule import Schedule
from hba.text.evaluation import Loss, TextEvaluation, TextEvaluationObserver, TextRow, train


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="module")
def schedule(texts: Path) -> Schedule:
    """With rows that differ more than those of so short a search."""
    found = small_search(texts).schedule
    assert found is not None
    values = np.linspace(0.05, 0.4, found.values.size).reshape(found.values.shape)
    return dataclasses.replace(found, values=values)


class Counting(TextEvaluationObserver):
    def __init__(self) -> None:
        self.starts: list[tuple[int, int, int]] = []
        self.steps = 0
        self.done: list[tuple[str, int]] = []

    def started(self, n_trainings: int, steps_per_training: int, words_per_step: int) -> None:
        self.starts.append((n_trainings, steps_per_training, words_per_step))

    def step_done(self) -> None:
        self.steps += 1

    def training_done(self, name: str, seed: int, loss: Loss) -> None:
        self.done.append((name, seed))


def losses_of(found: TextEvaluation) -> dict[str, dict[int, Loss]]:
    return {row.name: dict(row.losses) for row in found.rows}


def evaluated(schedule: Schedule | Path, **given: Any) -> TextEvaluation:
    return hba.text.evaluate(schedule, **{"against": (), "seeds": 1, "device": "cpu", **given})


def test_every_row_is_trained_with_every_seed(schedule: Schedule, texts: Path) -> None:
    callback = Counting()
    against = ("none", "start", "static", "final")
    found = evaluated(schedule, against=against, seeds=2, callback=callback)
    rows = ("schedule", *against)
    assert [row.name for row in found.rows] == list(rows)
    assert callback.done == [(name, seed) for seed in range(2) for name in rows]
    assert callback.starts == [(10, 28, 20)]
    assert callback.steps == 280
    for seed in range(2):
        trained = train(training_config(), tokens_of(texts), 12, schedule, seed)
        assert losses_of(found)["schedule"][seed] == Loss(trained.val_loss, trained.test_loss)
    assert len({losses[0] for losses in losses_of(found).values()}) == 5, "rows differ"


def constant(schedule: Schedule, row: list[float]) -> Schedule:
    return Schedule(schedule.space, np.array([row] * 3), provenance=schedule.provenance)


def test_baselines_are_constant_schedules(schedule: Schedule) -> None:
    found = losses_of(evaluated(schedule, against="none,start,static,final"))
    rows = {
        "none": [0.0] * 7,
        "start": [0.05] * 7,
        "static": schedule.values.mean(0).tolist(),
        "final": schedule.values[-1].tolist(),
    }
    for name, row in rows.items():
        assert losses_of(evaluated(constant(schedule, row)))["schedule"] == found[name]


def test_a_resumed_evaluation_trains_only_what_is_missing(schedule: Schedule, tmp_path: Path) -> None:
    out = tmp_path / "evaluation"
    before = losses_of(evaluated(schedule, against="none", seeds=2, out=out))
    callback = Counting()
    found = losses_of(evaluated(schedule, against="none,final", seeds=3, out=out, resume=True, callback=callback))
    assert callback.done == [("final", 0), ("final", 1), ("schedule", 2), ("none", 2), ("final", 2)]
    for name, losses in before.items():
        assert {seed: found[name][seed] for seed in range(2)} == losses
    assert found == losses_of(evaluated(schedule, against="none,final", seeds=3))
    stored = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert {(one["row"], one["seed"]) for one in stored["trainings"]} == {
        (name, seed) for name in found for seed in range(3)
    }


@pytest.fixture
def kept(schedule: Schedule, tmp_path: Path) -> Path:
    evaluated(schedule, out=tmp_path / "kept", epochs=1)
    return tmp_path / "kept"


def test_a_resumed_evaluation_keeps_its_schedule_settings_and_text(
    schedule: Schedule, kept: Path, tmp_path: Path
) -> None:
    other = constant(schedule, [0.2] * 7)
    elsewhere = write_texts(tmp_path / "elsewhere", seed=1)
    for found, given in (
        (other, {"epochs": 1}),
        (schedule, {"epochs": 2}),
        (schedule, {"epochs": 1, "width": 5}),
        (schedule, {"epochs": 1, "data": elsewhere}),
    ):
        with pytest.raises(RunError, match="is of another schedule, text or settings than are given now; resume with"):
            evaluated(found, out=kept, resume=True, **given)
    assert evaluated(schedule, out=kept, resume=True, epochs=1).rows


def test_settings_are_those_of_the_search_unless_they_are_given(schedule: Schedule, texts: Path) -> None:
    assert losses_of(evaluated(schedule)) == losses_of(evaluated(schedule, data=texts, **{**SMALL}))
    bare = dataclasses.replace(schedule, provenance={})
    assert losses_of(evaluated(bare, data=texts, **SMALL)) == losses_of(evaluated(schedule))
    with pytest.raises(SettingsError, match="data"):
        evaluated(bare)


def test_without_a_test_text_there_is_no_evaluation(schedule: Schedule, tmp_path: Path) -> None:
    folder = write_texts(tmp_path, {"train": 50, "valid": 34})
    with pytest.raises(DataError, match=r"test\.txt"):
        evaluated(schedule, data=folder)


@pytest.mark.parametrize(
    ("against", "message"),
    [
        ("nothing", "against: unknown baseline 'nothing'; known: none, start, static, final"),
        ("none,none", "each baseline once"),
    ],
)
def test_baselines_that_there_are_not_are_refused(against: str, message: str, schedule: Schedule) -> None:
    with pytest.raises(SettingsError, match=message):
        evaluated(schedule, against=against)


def test_a_schedule_of_images_is_refused(texts: Path) -> None:
    for found, name in ((hba.load_policy("digits"), "ShearX"), (both(), "Rotate"), (alone(), r"dropout\.fc1")):
        with pytest.raises(
            ScheduleError, match=f"a language model has no {name}: give a schedule that hba search-text"
        ):
            evaluated(found, data=texts)


def of_names(schedule: Schedule, group: str) -> Schedule:
    space = dataclasses.replace(
        schedule.space, regularizers=tuple(one for one in schedule.space.regularizers if one.group == group)
    )
    columns = [schedule.space.names.index(one.name) for one in space.regularizers]
    return Schedule(space, schedule.values[:, columns])


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ("dropout", "the schedule has rates for the dropouts words, input, hidden, output, weights, WideResNet has "),
        ("activation", "the row schedule is of language models, as activation.beta says; train these by hba evaluate-"),
    ],
)
def test_a_schedule_of_text_is_refused_for_images(group: str, message: str, schedule: Schedule) -> None:
    found = small_data()
    data = EvaluationData(found.name, found.class_names, found.train, found.val)
    with pytest.raises(HbaError, match=message):
        hba.evaluate(
            of_names(schedule, group),
            data,
            against=["none"],
            seeds=1,
            epochs=1,
            model="wrn-10-1",
            image_size=8,
            batch_size=8,
            device="cpu",
        )


def test_differences_are_of_pairs_with_the_same_seed() -> None:
    of = {"schedule": [2.0, 2.5, 2.25], "none": [2.5, 2.75, 3.25]}
    rows = [TextRow(name, {seed: Loss(9.0, one) for seed, one in enumerate(found)}) for name, found in of.items()]
    found = TextEvaluation(tuple(rows), None)
    differences = [-0.5, -0.25, -1.0]
    half = 4.302653 * statistics.stdev(differences) / 3**0.5
    difference = found.difference("none")
    assert difference is not None
    assert difference.mean == pytest.approx(statistics.fmean(differences))
    assert difference.interval == pytest.approx((difference.mean - half, difference.mean + half))
    perplexities = [np.exp(one) for one in of["schedule"]]
    assert found.lines()[0] == (
        f"schedule   perplexity {np.mean(perplexities):.1f} +- {np.std(perplexities, ddof=1):.1f} on the test text, "
        "8103.1 +- 0.0 on the validation text"
    )
    assert found.lines()[-1] == (
        f"schedule - none: -0.583 nats a word (95 %: {difference.mean - half:+.3f} to {difference.mean + half:+.3f}, "
        "3 seeds): no difference shown"
    )


@pytest.mark.parametrize(("of_schedule", "told"), [([2.0, 2.1], "lower loss"), ([4.0, 4.1], "higher loss")])
def test_a_difference_beyond_its_interval_is_told(of_schedule: list[float], told: str) -> None:
    of = {"schedule": of_schedule, "none": [3.0, 3.1001]}
    rows = [TextRow(name, {seed: Loss(9.0, one) for seed, one in enumerate(found)}) for name, found in of.items()]
    assert TextEvaluation(tuple(rows), None).lines()[-1].endswith(f"2 seeds): {told}")
