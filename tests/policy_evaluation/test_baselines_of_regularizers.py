"""Rivals of schedules with regularizers, beside operations and alone."""

from statistics import fmean, geometric_mean
from typing import Any

import numpy as np
import pytest
import torch
from small_trainings import tiny_data
from tuned_schedules import CUTOUT, DECAY, OTHERS, POLICY, alone, both

import hba
from hba.config.evaluation import EvaluationConfig
from hba.errors import SettingsError
from hba.policy.space import SearchSpace
from hba.policy_evaluation.baseline_augmentations import (
    final,
    middle,
    only_augmentation,
    only_regularization,
    respread,
    shuffled,
    start,
    static,
)
from hba.policy_evaluation.baselines import BASELINES, named_rows, row_configs
from hba.policy_evaluation.results import EvaluationRow
from hba.schedule.schedule import Schedule
from hba.training.augmentation import regularization_of

SETTINGS: dict[str, Any] = {"model": "wrn-10-1", "epochs": 1, "batch_size": 20, "device": "cpu", "seeds": 1}


def without_dropout(schedule: Schedule) -> Schedule:
    """For networks that have no module fc1."""
    space, first = schedule.space, schedule.space.n_of_policy
    tuned = SearchSpace(space.operations, space.copies, space.count_probabilities, regularizers=(DECAY, *CUTOUT))
    return Schedule(tuned, np.delete(schedule.values, first, axis=1), spread=np.delete(schedule.spread, first, axis=1))


def test_one_half_each_is_what_the_schedule_says_of_it() -> None:
    schedule = both(spread=0.5)
    augmentation, regularization = only_augmentation(schedule), only_regularization(schedule)
    assert augmentation.values.tolist() == list(POLICY)
    assert (augmentation.spread == 0.5).all()
    assert regularization.values.tolist() == list(OTHERS)
    assert regularization.space.operations == ()
    epochs = [regularization_of(one, 3, torch.device("cpu")) for one in (augmentation, regularization, schedule)]
    assert [len(one) for one in epochs] == [0, 3, 3]
    assert [one.row for one in epochs[1]] == [one.row for one in epochs[2]]


@pytest.mark.parametrize("schedule", [alone(), both().without_regularizers()], ids=["regularizers", "operations"])
@pytest.mark.parametrize("name", ["only-augmentation", "only-regularization"])
def test_of_a_schedule_of_one_half_alone_there_is_none(schedule: Schedule, name: str) -> None:
    with pytest.raises(SettingsError, match="need a schedule of both operations and regularizers; omit them"):
        hba.evaluate(schedule, tiny_data(), against=[name], **SETTINGS)


def test_rivals_made_of_one_row_keep_its_regularizers() -> None:
    schedule = both()
    dropout, decay, length, holes = zip(*OTHERS, strict=True)
    assert static(schedule).values[0, 3:].tolist() == pytest.approx(
        [fmean(dropout), geometric_mean(decay), fmean(length), fmean(holes)], rel=1e-5
    ), "weight decay is searched by its log"
    assert final(schedule).values[0, 3:].tolist() == OTHERS[-1]
    for one in (start(schedule), middle(schedule)):
        assert one.values[0, 3:].tolist() == pytest.approx([0.05, 5e-4, 4, 1], rel=1e-5), "where a search begins"
    assert all((one.values[:, 3:] == schedule.values[:, 3:]).all() for one in shuffled(schedule))
    assert not respread(schedule, 0.25).spread[:, 3:].any()


def test_all_rows_of_a_schedule_of_both_train_beside_each_other() -> None:
    result = hba.evaluate(without_dropout(both(spread=0.5)), tiny_data(), against=list(BASELINES), **SETTINGS)
    assert [len(row.test_error_percent) for row in result.rows] == [1] * (1 + len(BASELINES))
    assert len({row.definition for row in result.rows}) >= len(BASELINES), "random began in the middle"


def test_rows_of_regularizers_alone_train_beside_each_other() -> None:
    names = [name for name in BASELINES if name != "shuffled" and not name.startswith("only-")]
    schedule = without_dropout(alone())
    rows = {row.name: row for row in row_configs(named_rows(schedule, names), schedule, EvaluationConfig.make({}))}
    assert rows["point"].definition == rows["schedule"].definition, "there is no spread"
    result = hba.evaluate(schedule, tiny_data(), against=["none", "random", "static", "final"], **SETTINGS)
    assert [len(row.test_error_percent) for row in result.rows] == [1] * 5
    with pytest.raises(SettingsError, match="shuffled needs a schedule of at least two operations, got none; omit"):
        hba.evaluate(schedule, tiny_data(), against=["shuffled"], **SETTINGS)


def test_the_verdict_says_what_to_do_where_one_half_does_as_well() -> None:
    errors = {"schedule": (10.0, 11.0, 12.0), "only-augmentation": (10.1, 10.9, 12.05)}
    rows = tuple(EvaluationRow(name, found, (0, 1, 2), name) for name, found in errors.items())
    result = hba.EvaluationResult(rows, EvaluationConfig.make({}), 100, 100, 0, {}, {})
    assert "use only-augmentation, which is simpler" in str(result.verdict)
