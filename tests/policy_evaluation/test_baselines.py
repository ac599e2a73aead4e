"""Rows by name: settings and augmentation of each, and what tells one from another."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_trainings import tiny_data
from tuned_schedules import DECAY, FURTHER, alone, both

import hba
from hba.config.evaluation import EvaluationConfig
from hba.errors import ScheduleError, SettingsError
from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.policy_evaluation.baselines import (
    AGAINST,
    BASELINES,
    RowConfig,
    middle,
    named_rows,
    row_configs,
)
from hba.schedule.recipes import RECIPES
from hba.schedule.schedule import Schedule
from hba.training.augmentation import ScheduleAugmentation

SPACE = SearchSpace(
    (OPERATIONS["Rotate"], OPERATIONS["Invert"]),
    copies=1,
    count_probabilities=(0.0, 1.0),
)
SCHEDULE = Schedule(SPACE, [[0.25, 3.0, 0.5], [0.75, 24.0, 0.125]])  # type: ignore[arg-type]
MADE: dict[str, Callable[[Schedule], Schedule]] = {
    "start": middle,
    "middle": middle,
    "static": Schedule.averaged,
    "final": lambda schedule: schedule.only(1),
    "point": lambda schedule: schedule.with_spread(0.0),
}
SETTINGS: dict[str, Any] = {
    "model": "mlp-8",
    "epochs": 3,
    "batch_size": 20,
    "device": "cpu",
    "seeds": 2,
}


def rows_for(
    *against: str, schedule: Schedule = SCHEDULE, **settings: Any
) -> dict[str, RowConfig]:
    config = EvaluationConfig.make({"data": "digits", **settings})
    return {
        row.name: row
        for row in row_configs(named_rows(schedule, against), schedule, config)
    }


def schedule_of(row: RowConfig) -> Schedule:
    assert isinstance(row.augmentation, ScheduleAugmentation)
    assert row.augmentation.schedule is not None
    return row.augmentation.schedule


OF_OPERATIONS = [name for name in BASELINES if not name.startswith("only-")]
"""The others need regularizers too."""


def test_each_name_has_its_augmentation() -> None:
    schedule = dataclasses.replace(SCHEDULE, spread=np.array([[0.5], [1.0]]))
    rows = rows_for(*OF_OPERATIONS, schedule=schedule)
    assert list(rows) == ["schedule", *OF_OPERATIONS]
    assert schedule_of(rows["schedule"]) is schedule
    assert (
        rows["none"].augmentation
        == rows["cutout"].augmentation
        == ScheduleAugmentation(None)
    )
    for name, make in MADE.items():
        assert schedule_of(rows[name]).values.tolist() == make(schedule).values.tolist()
        assert schedule_of(rows[name]).spread.tolist() == make(schedule).spread.tolist()
    assert len({row.definition for row in rows.values()}) == len(rows) - 1, (
        "the search started in the middle"
    )


def test_recipes_are_rows_of_schedules() -> None:
    rows = rows_for(*RECIPES)
    for name in RECIPES:
        if name != "none":
            assert (
                schedule_of(rows[name]).values.tolist()
                == hba.load_policy(name).values.tolist()
            )
    for data, baseline_like, policy in (
        ("cifar100", None, "cifar10"),
        ("svhn-full", None, "svhn"),
        ("a folder", "svhn", "svhn"),
        ("cifar10-of-mine", None, "imagenet"),
    ):
        expected = hba.import_policy("torchvision", f"autoaugment-{policy}").values
        row = rows_for("autoaugment", data=data, baseline_like=baseline_like)[
            "autoaugment"
        ]
        assert schedule_of(row).values.tolist() == expected.tolist()


def test_the_recipe_none_trains_as_the_baseline_does() -> None:
    config = EvaluationConfig.make({"data": "digits"})
    nothing = hba.load_policy("none")
    for named in (
        named_rows("none", ()),
        named_rows(nothing, ()),
        named_rows(nothing.with_spread(0.5), ()),
    ):
        (row,) = row_configs(named, nothing, config)
        assert row.augmentation == ScheduleAugmentation(None)


@pytest.mark.parametrize(
    ("other", "alike"),
    [
        (Schedule(SPACE, SCHEDULE.values, SCHEDULE.fill, {"seed": 3}), True),
        (Schedule(SPACE, SCHEDULE.values, (0.1, 0.5, 0.5)), False),
        (Schedule(SPACE, SCHEDULE.values[:1]), False),
        (Schedule(SPACE, SCHEDULE.values, spread=np.zeros(3)), True),
        (SCHEDULE.with_spread(0.5), False),
        (
            Schedule(SearchSpace(SPACE.operations, 1, (0.5, 0.5)), SCHEDULE.values),
            False,
        ),
    ],
)
def test_the_definition_tells_schedules_apart_by_what_they_do(
    other: Schedule, alike: bool
) -> None:
    first, second = (
        rows_for(schedule=schedule)["schedule"].definition
        for schedule in (SCHEDULE, other)
    )
    assert (first == second) == alike


def test_cutout_is_the_dataset_s_own_else_of_half_the_side() -> None:
    for settings, size in (
        ({"data": "digits"}, 8),
        ({"data": "a folder", "image_size": 8}, 4),
        ({"data": "cifar10", "cutout_size": 0, "image_size": 16}, 8),
        ({"data": "a folder", "baseline_like": "svhn", "cutout_size": 0}, 20),
    ):
        rows = rows_for("none", "cutout", **settings)
        assert [
            rows[name].config.baseline_augmentation().cutout_size for name in rows
        ] == [0, 0, size]


def test_the_setting_spread_reaches_every_row_that_is_made_of_a_schedule() -> None:
    schedule = dataclasses.replace(SCHEDULE, spread=np.array([[0.5], [1.0]]))
    names = [*MADE]
    rows = rows_for(*names, schedule=schedule, spread=0.25)
    for name in ("schedule", *MADE):
        assert (
            schedule_of(rows[name]).spread == (0.0 if "point" in name else 0.25)
        ).all(), name
    bare = rows_for(*names, schedule=schedule, spread=0.0)
    assert bare["schedule"].definition == bare["point"].definition


def test_what_no_row_can_be_made_of_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("static.json", "a.json", "b/a.json"):
        SCHEDULE.save(path)
    for schedule, against, settings, named in (
        (SCHEDULE, SCHEDULE, {}, "against"),
        (SCHEDULE, "none,cutout", {"baseline_like": "cifar10"}, "Cutout"),
        (SCHEDULE, [], {"spread": -0.5}, "spread"),
        (both().without_regularizers(), ["only-regularization"], {}, "no regularizers"),
        (alone(), ["only-augmentation"], {}, "no operations"),
        ("static.json", ["static"], {}, "'static'"),
        ("a.json", ["b/a.json"], {}, "'a'"),
    ):
        with pytest.raises((SettingsError, ScheduleError), match=named) as raised:
            hba.evaluate(
                schedule, tiny_data(), **{**SETTINGS, **settings, "against": against}
            )
        assert len(str(raised.value).splitlines()) == 1
    with pytest.raises(ScheduleError, match="nowhere"):
        named_rows(SCHEDULE, ["none", "nowhere"])


def test_the_usual_baselines_are_without_what_is_evaluated(tmp_path: Path) -> None:
    hba.load_policy("randaugment").save(tmp_path / "best.json")
    for schedule, names in (
        (SCHEDULE, ["schedule", "none", "randaugment"]),
        ("none", ["none", "randaugment"]),
        (tmp_path / "best.json", ["best", "none"]),
    ):
        assert [*named_rows(schedule, AGAINST)] == names


def test_rows_are_called_by_file_run_folder_or_shipped_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (
        "a.json",
        "b.v2.json",
        "start",
        "run.1/policy.json",
        "other/policy.json",
    ):
        SCHEDULE.save(tmp_path / path)
    monkeypatch.chdir(tmp_path)
    assert list(named_rows("a.json", ("none", "b.v2.json", SCHEDULE))) == [
        "a",
        "none",
        "b.v2",
        "schedule 4",
    ]
    assert named_rows("a.json", ["start"])["start"] is BASELINES["start"].make, (
        "not the file of that name"
    )
    assert list(named_rows(tmp_path / "run.1", ("other/policy.json", "digits"))) == [
        "run.1",
        "other",
        "digits",
    ]
    monkeypatch.chdir(tmp_path / "run.1")
    assert list(named_rows("policy.json", ("../other",))) == ["run.1", "other"]
    assert list(named_rows(".", ())) == ["run.1"]


def without_dropout(schedule: Schedule) -> Schedule:
    """For networks that have no module fc1."""
    space = schedule.space
    first = schedule.space.n_of_policy
    tuned = SearchSpace(
        space.operations,
        space.copies,
        space.count_probabilities,
        regularizers=(DECAY, *FURTHER),
    )
    return Schedule(
        tuned,
        np.delete(schedule.values, first, axis=1),
        spread=np.delete(schedule.spread, first, axis=1),
    )


def test_all_rows_of_a_schedule_with_regularizers_train_beside_each_other() -> None:
    settings = {**SETTINGS, "epochs": 1, "seeds": 1}
    result = hba.evaluate(
        without_dropout(both(spread=0.5)),
        tiny_data(),
        against=list(BASELINES),
        **settings,
    )
    assert [len(row.test_error_percent) for row in result.rows] == [1] * (
        1 + len(BASELINES)
    )
    assert len({row.definition for row in result.rows}) >= len(BASELINES), (
        "the search started in the middle"
    )
    result = hba.evaluate(
        without_dropout(alone()),
        tiny_data(),
        against=["none", "static", "point"],
        **settings,
    )
    assert result.rows[3].definition == result.rows[0].definition, "there is no spread"
