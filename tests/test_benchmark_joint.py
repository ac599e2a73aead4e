"""The verdict on joint tuning: what it trains with, and its table."""

from typing import Any

import numpy as np
import pytest
import torch
from benchmark_modules import module
from test_benchmark_records import a_run, record_of

from hba.data import EvaluationData, LabelledImages
from hba.errors import DivergedError, SettingsError
from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")


def place(bed: str = "digits-noisy", epochs: int = 2) -> Any:
    beds = module("joint_tuning.beds")
    return beds.Place(beds.joint_bed(bed), epochs, "cpu", None)


def test_the_joint_search_differs_from_the_default_one_by_what_it_tunes() -> None:
    one, other = (place().search(name, 3).config.flat() for name in ("augmentation", "joint"))
    assert other["tune"] == ["augmentation", "dropout", "weight-decay"]
    assert (one["algorithm"], other["algorithm"]) == ("lookahead", "joint")
    of_algorithms = {"response", "response_weight_decay", "sharing", "train_steps", "val_batches"}
    assert {name for name in one if one[name] != other[name]} - of_algorithms == {"tune", "algorithm"}
    assert (one["seed"], one["epochs"], one["model"], one["train_size"]) == (3, 2, "mlp-128", 350)


def test_three_in_ten_training_labels_are_random_and_no_others() -> None:
    search = place().search("augmentation", 0)
    plain = module("common.images").IMAGES.of_search(search.config)
    seen = search.data
    assert torch.equal(seen.train.images, plain.train.images)
    assert torch.equal(seen.val.labels, plain.val.labels)
    # One random label in ten is the right one.
    assert float((seen.train.labels != plain.train.labels).float().mean()) == pytest.approx(0.27, abs=0.05)


def test_draws_are_of_the_whole_ranges_and_the_same_for_a_seed() -> None:
    tasks = module("joint_tuning.tasks")
    task = tasks.row_task("drawn", place(), 0)
    schedule = Schedule(SearchSpace(), SearchSpace().decode(torch.zeros(54)).numpy()[None])
    data = task.data
    draws = tasks.drawn(schedule, task.config, data, 0, 200)
    values = np.array([[*one.regularization(0).values()] for one in draws])
    assert [*draws[0].regularization(0)] == [
        "dropout.on_input",
        "dropout.after_fc1",
        "dropout.after_fc2",
        "weight_decay",
    ]
    assert values[:, :3].mean() == pytest.approx(0.95 / 2, abs=0.03)
    assert np.log10(values[:, 3]).mean() == pytest.approx(-3.5, abs=0.3)
    assert np.log10(values[:, 3]).min() < -5.7
    again = tasks.drawn(schedule, task.config, data, 0, 3)
    assert [one.regularization(0) for one in again] == [one.regularization(0) for one in draws[:3]]
    assert draws[0].regularization(0) != tasks.drawn(schedule, task.config, data, 1, 1)[0].regularization(0)


def test_the_draw_of_least_validation_loss_is_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = module("joint_tuning.tasks")
    seen: list[tuple[str, float]] = []

    def measured(config: Any, data: EvaluationData, schedule: Schedule, seed: int) -> Any:
        decay = schedule.regularization(0)["weight_decay"]
        is_val = isinstance(data.test, LabelledImages) and len(data.test) == 350
        seen.append(("val" if is_val else "test", decay))
        return module("hba.training.measure").Measured(loss=abs(np.log10(decay) + 3), error_percent=50.0)

    monkeypatch.setattr(tasks, "_measured", measured)
    found = tasks.row_task("drawn", place(epochs=1), 0, draws=6).do()
    assert [where for where, _ in seen] == ["val"] * 6 + ["test"]
    nearest = min((decay for _, decay in seen[:6]), key=lambda decay: abs(np.log10(decay) + 3))
    assert seen[-1][1] == nearest
    assert found["draws"][found["best"]]["weight_decay"] == nearest


def test_a_draw_that_diverges_is_not_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = module("joint_tuning.tasks")
    calls: list[int] = []

    def measured(*_: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise DivergedError("the loss of epoch 18 is not finite")
        return module("hba.training.measure").Measured(loss=1.0 / len(calls), error_percent=50.0)

    monkeypatch.setattr(tasks, "_measured", measured)
    found = tasks.row_task("drawn", place(epochs=1), 0, draws=3).do()
    assert [draw["val_loss"] for draw in found["draws"]] == [1.0, None, 1 / 3]
    assert found["best"] == 2


def test_the_table_has_differences_paired_by_seed() -> None:
    page = module("joint_tuning.page")
    errors = {"joint": (2.0, 3.0, 4.0), "augmentation": (3.0, 4.5, 5.0), "none": (6.0, 6.0, 6.0)}
    records = [
        record_of(
            a_run(name=name, dataset="digits", seed=4000 + seed, settings={"epochs": 300}),
            test_error_percent=error,
            test_loss=error / 10,
        )
        for name, of_seeds in errors.items()
        for seed, error in enumerate(of_seeds)
    ]
    text = page.joint_table(records)
    assert "seeds 4000 to 4002" in text
    line = next(line for line in text.splitlines() if line.startswith("| `augmentation`"))
    assert "-1.17 (-1.88 to -0.45)" in line
    assert "-0.117" in line
    assert "drawn" not in text


def test_the_page_has_the_table_of_what_is_kept() -> None:
    page, records = module("joint_tuning.page"), module("common.records")
    kept = module("joint").planned_records(records.store_of(records.RESULTS, "joint"))
    text = (records.DOCS / "regularization.md").read_text(encoding="utf-8")
    assert module("common.pages").placed(text, page.MARK, page.joint_table(kept)) == text


def test_only_seeds_of_the_plan_are_in_the_table() -> None:
    records, joint = module("common.records"), module("joint")
    store = records.store_of(records.RESULTS, "joint")
    noisy = [record.run.seed for record in store.by_key().values() if record.run.dataset == "digits-noisy"]
    planned = [one.run.seed for one in joint.planned_records(store) if one.run.dataset == "digits-noisy"]
    first = joint.planned_for("digits-noisy").first_seed
    assert set(planned) == {seed for seed in noisy if first <= seed < first + 8} < set(noisy)


def test_what_the_page_says_of_the_table_is_what_the_records_show() -> None:
    tables, records = module("common.tables"), module("common.records")
    kept = module("joint").planned_records(records.store_of(records.RESULTS, "joint"))

    def interval(bed: str, row: str, measure: str = "test_error_percent") -> tuple[float, float]:
        frame = tables.frame_of([record for record in kept if record.run.dataset == bed])
        found = tables.difference(frame, "joint", row, measure)
        assert found.interval is not None
        return found.interval

    low, high = interval("digits", "augmentation")
    assert low < 0 < high
    assert interval("digits", "augmentation", "test_loss")[1] < 0
    assert interval("digits", "joint-augmentation")[0] > 0
    low, high = interval("cifar", "augmentation")
    assert low < 0 < high
    assert interval("cifar", "augmentation", "test_loss")[1] < 0
    assert interval("cifar", "joint-augmentation")[1] < 0
    assert interval("digits-noisy", "augmentation")[1] < 0
    assert interval("digits-noisy", "joint-augmentation")[1] < 0
    assert interval("digits-noisy", "drawn")[0] > 0
    low, high = interval("digits-noisy", "drawn", "test_loss")
    assert low < 0 < high
    for bed in ("digits", "cifar"):
        for measure in ("test_error_percent", "test_loss"):
            low, high = interval(bed, "drawn", measure)
            assert low < 0 < high
    rows = [(record.run.dataset, record.run.name) for record in kept]
    assert (rows.count(("cifar", "drawn")), rows.count(("digits", "drawn"))) == (5, 8), "all seeds of the plan"


def test_only_what_is_planned_and_committed_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    joint = module("joint")
    assert joint.planned_for("digits").first_seed >= 4000
    with pytest.raises(SettingsError, match="no verdict is planned on the bed 'cifar-grey'"):
        joint.planned_for("cifar-grey")
    monkeypatch.setattr(joint, "last_change", lambda path: "abc-dirty")
    with pytest.raises(SettingsError, match="commit them before the verdict is run"):
        joint._noted(joint.planned_for("digits"))
