"""An evaluation that was interrupted goes on to the same results, and not as another
one.
"""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from small_trainings import one_operation, tiny_data, two_sides

import hba
from hba.data import EvaluationData
from hba.errors import HbaWarning, RunError, SettingsError
from hba.executors.executor import ProcessExecutor
from hba.policy_evaluation.callbacks import EvaluationPlan
from hba.schedule.schedule import Schedule
from hba.training.metrics import Measured

DIM = one_operation("Brightness", [[1.0, 0.5], [0.5, 0.9]])
SETTINGS: dict[str, Any] = {
    "model": "mlp-8", "epochs": 2, "batch_size": 20, "device": "cpu", "seeds": 2,
    "learning_rate": 0.1, "against": ("none", "final"),
}  # fmt: skip


def evaluate(
    out: Path | None, schedule: Schedule = DIM, data: Any = None, **settings: Any
) -> hba.EvaluationResult:
    return hba.evaluate(
        schedule, data or tiny_data(), out=out, **{**SETTINGS, **settings}
    )


class StopAfter(hba.EvaluationCallback):
    """Ctrl-C in the training behind the first `n_left`, and what was heard."""

    def __init__(self, n_left: int = 100) -> None:
        self.n_left = n_left
        self.n_trainings = 0
        self.trainings: list[tuple[str, int]] = []

    def planned(self, plan: EvaluationPlan) -> None:
        self.n_trainings = plan.n_trainings

    def step_done(self) -> None:
        if self.n_left == 0:
            raise KeyboardInterrupt

    def training_done(self, name: str, seed: int, *_: object) -> None:
        self.n_left -= 1
        self.trainings.append((name, seed))


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four of six trainings."""
    out = tmp_path_factory.mktemp("interrupted")
    with pytest.raises(KeyboardInterrupt):
        evaluate(out, callback=StopAfter(4))
    return out


@pytest.fixture
def out(interrupted: Path, tmp_path: Path) -> Path:
    """A copy to go on with."""
    shutil.copytree(interrupted, tmp_path / "run")
    return tmp_path / "run"


def content_of(out: Path) -> dict[str, Any]:
    """But for the time that it took."""
    content: dict[str, Any] = json.loads(
        (out / "results.json").read_text(encoding="utf-8")
    )
    assert content.pop("wall_seconds") > 0
    return content


MORE: dict[str, Any] = {"seeds": 3, "against": ("none", "final", "start")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seeds of four rows, without an interruption."""
    out = tmp_path_factory.mktemp("whole")
    rows = evaluate(out, **MORE).rows
    assert len({loss for row in rows for loss in row.test_loss}) > 8, (
        "the numbers can differ"
    )
    return out


def test_it_goes_on_to_the_numbers_of_one_that_was_not_interrupted(
    out: Path, whole: Path
) -> None:
    callback = StopAfter()
    result = evaluate(out, resume=True, callback=callback, **MORE)
    assert callback.n_trainings == 8
    assert callback.trainings == [
        ("start", 0), ("none", 1), ("final", 1), ("start", 1),
        ("schedule", 2), ("none", 2), ("final", 2), ("start", 2),
    ]  # fmt: skip
    assert [row.seeds for row in result.rows] == [(0, 1, 2)] * 4
    assert content_of(out) == content_of(whole)


def test_an_evaluation_from_another_first_seed_trains_the_seeds_that_the_longer_one_had(
    tmp_path: Path, whole: Path
) -> None:
    later = evaluate(tmp_path, seeds=1, first_seed=1)
    assert [row.seeds for row in later.rows] == [(1,)] * 3
    resumed = evaluate(tmp_path, seeds=2, first_seed=1, resume=True)
    for row, whole_row in zip(resumed.rows, content_of(whole)["rows"], strict=False):
        assert list(row.test_loss) == whole_row["test_loss"]["nats"][1:]


OTHER_TRAIN = EvaluationData(
    "tiny", ("left", "right"), two_sides(40, seed=9), tiny_data().test
)
OTHER_TEST = EvaluationData(
    "tiny", ("left", "right"), tiny_data().train, two_sides(30, seed=9)
)
NEW_VALUES = one_operation("Brightness", [[1.0, 0.5], [0.5, 0.8]])


def test_another_evaluation_is_refused_and_nothing_changes(out: Path) -> None:
    before = (out / "results.json").read_bytes()
    for settings, named in (
        ({"epochs": 3, "learning_rate": 0.2}, "epochs"),
        ({"seeds": 1}, "seeds"),
        ({"first_seed": 1}, "first_seed"),
        ({"schedule": NEW_VALUES}, "row schedule"),
        ({"spread": 0.5}, "spread"),
        ({"against": ("final", "none")}, "rows"),
        ({"against": ("none",)}, "rows"),
        ({"data": OTHER_TRAIN}, "training images"),
        ({"data": OTHER_TEST}, "test images"),
    ):
        with pytest.raises((SettingsError, RunError)) as raised:
            evaluate(out, resume=True, **settings)
        assert named in str(raised.value)
        assert str(out) in str(raised.value)
        assert len(str(raised.value).splitlines()) == 1
        assert (out / "results.json").read_bytes() == before
    # Where files are does not matter.
    moved = dataclasses.replace(tiny_data(), name="moved")
    evaluate(
        out,
        resume=True,
        data=moved,
        data_root="elsewhere",
        workers=1,
        download=True,
        graph=False,
    )


def test_a_schedule_without_a_search_needs_data() -> None:
    with pytest.raises(SettingsError, match="data"):
        hba.evaluate(DIM, **SETTINGS)


def test_what_is_no_evaluation_is_refused(out: Path, tmp_path: Path) -> None:
    content = json.loads((out / "results.json").read_text(encoding="utf-8"))
    with pytest.raises(SettingsError, match="resume needs out"):
        evaluate(None, resume=True)
    with pytest.warns(HbaWarning, match="begins again"):
        assert len(evaluate(tmp_path / "empty", resume=True, seeds=1).rows) == 3
    for changed, error in (
        ("mine", RunError),
        (
            {
                **content,
                "rows": [{**content["rows"][0], "test_error_percent": [-1.0, 0.0]}],
            },
            RunError,
        ),
        ({**content, "device": "cuda:0"}, SettingsError),
    ):
        (out / "results.json").write_text(json.dumps(changed), encoding="utf-8")
        with pytest.raises(error) as raised:
            evaluate(out, resume=True)
        assert len(str(raised.value).splitlines()) == 1


def test_what_is_left_is_trained_on_as_many_threads_as_before(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of six trainings are left: two processes at most, with the threads that each
    of three would have had.
    """
    seen: list[tuple[int, int]] = []

    def run(executor: ProcessExecutor, function: Any, tasks: Any, *_: Any) -> Any:
        seen.append((len(tasks), executor.n_threads))
        yield from (
            (number, (Measured(0.0, 50.0), (), None, None))
            for number in range(len(tasks))
        )

    monkeypatch.setattr(ProcessExecutor, "run", run)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 6)
    result = evaluate(out, resume=True, jobs=3)
    assert seen == [(2, 2)]
    assert (result.environment["jobs"], result.environment["n_threads"]) == (3, 2)
    assert evaluate(out, resume=True, jobs=3).environment == result.environment
    assert seen == [(2, 2), (0, 2)], "nothing is left"
