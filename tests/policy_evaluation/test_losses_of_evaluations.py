"""The test loss that an evaluation keeps beside the error, against the networks themselves and scipy."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from report_pages import check_page
from scipy.stats import ttest_rel
from small_trainings import one_operation, tiny_data
from tuned_schedules import alone

import hba
from hba.data import LabelledImages
from hba.data.loader import as_floats
from hba.policy_evaluation.jobs import Job, TrainingResult
from hba.preprocessing.preprocessing import Preprocessing
from hba.report.compare import TEST_LOSS
from hba.training.augmentation import augmentation_of
from hba.training.metrics import Measured
from hba.training.trainer import train

DIM = one_operation("Brightness", [[1.0, 0.5]])
SETTINGS: dict[str, Any] = {"model": "wrn-10-1", "epochs": 1, "batch_size": 20, "device": "cpu", "seeds": 3}


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> tuple[hba.EvaluationResult, Path]:
    out = tmp_path_factory.mktemp("losses")
    return hba.evaluate(DIM, tiny_data(), out=out, **SETTINGS), out


def content_of(out: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((out / "results.json").read_text(encoding="utf-8"))
    return content


def test_it_is_the_mean_cross_entropy_of_each_trained_network(evaluated: tuple[hba.EvaluationResult, Path]) -> None:
    result, out = evaluated
    data = tiny_data()
    assert isinstance(data.test, LabelledImages)
    prepare = Preprocessing.of(data.train, result.config.baseline_augmentation(), None).measure
    row, stored = result.rows[0], content_of(out)["rows"][0]["test_loss"]
    for seed in row.seeds:
        trained = train(result.config, data, augmentation_of(DIM), seed)
        with torch.no_grad():
            logits = trained.network.eval()(prepare(as_floats(data.test.images)))
        expected = float(F.cross_entropy(logits, data.test.labels))
        assert row.test_loss_by_seed[seed] == stored["nats"][seed] == pytest.approx(expected, rel=1e-5)
    assert stored["mean"] == pytest.approx(sum(stored["nats"]) / 3)
    assert stored["std"] == pytest.approx(torch.tensor(stored["nats"]).std().item())
    assert stored["schedule_minus_row"] is None


def test_its_difference_is_paired_by_seed_and_the_verdict_is_on_the_error(
    evaluated: tuple[hba.EvaluationResult, Path],
) -> None:
    result, out = evaluated
    mine, none = (list(row.test_loss_by_seed.values()) for row in result.rows)
    interval = ttest_rel(mine, none).confidence_interval(0.95)
    found = content_of(out)["rows"][1]["test_loss"]["schedule_minus_row"]
    assert found["n_pairs"] == 3
    assert found["mean"] == pytest.approx(sum(mine) / 3 - sum(none) / 3)
    assert found["interval"] == pytest.approx([interval.low, interval.high])
    difference = result.differences["none"]
    assert difference is not None
    assert result.verdict is not None
    assert result.verdict.difference == difference.mean


def test_an_evaluation_from_before_is_shown_and_resumed_without_it(tmp_path: Path) -> None:
    hba.evaluate(DIM, tiny_data(), out=tmp_path, **{**SETTINGS, "seeds": 1})
    content = content_of(tmp_path)
    for row in content["rows"]:
        del row["test_loss"]
    (tmp_path / "results.json").write_text(json.dumps(content), encoding="utf-8")
    hba.write_report(tmp_path)
    assert "Test loss in nats" not in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert TEST_LOSS not in hba.compare(tmp_path).tables()
    result = hba.evaluate(DIM, tiny_data(), out=tmp_path, resume=True, **SETTINGS)
    whole = hba.evaluate(DIM, tiny_data(), **SETTINGS)
    for row, expected in zip(result.rows, whole.rows, strict=True):
        assert row.test_error_percent == expected.test_error_percent
        assert row.test_loss == (None, *expected.test_loss[1:])
    stored = content_of(tmp_path)["rows"][1]["test_loss"]
    assert stored["nats"][0] is None
    assert stored["schedule_minus_row"]["n_pairs"] == 2
    page = check_page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert page.table_with("mean loss")[1][1].endswith(" (2 of 3 seeds)")


def test_a_loss_that_is_not_finite_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = iter([0.5, math.inf, math.nan, 0.25])

    def trained(training: Job, *others: Any) -> TrainingResult:
        return TrainingResult(Measured(next(losses), 10.0), ())

    monkeypatch.setattr("hba.policy_evaluation.jobs.train_and_measure", trained)
    for resume in (False, True):
        result = hba.evaluate(DIM, tiny_data(), out=tmp_path, jobs=1, resume=resume, **{**SETTINGS, "seeds": 2})
        assert [row.test_loss for row in result.rows] == [(0.5, None), (None, 0.25)]
    assert result.test_loss_differences == {"none": None}


@pytest.mark.parametrize(
    ("nats", "said"),
    [([0.5], "row schedule must have one test loss for each seed"), (["low"] * 3, r"rows\[0\]\.test_loss\.nats\[0\]")],
)
def test_a_damaged_loss_is_refused_in_one_line(
    evaluated: tuple[hba.EvaluationResult, Path], nats: Any, said: str, tmp_path: Path
) -> None:
    content = content_of(evaluated[1])
    content["rows"][0]["test_loss"]["nats"] = nats
    (tmp_path / "results.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(hba.HbaError, match=said) as raised:
        hba.write_report(tmp_path)
    assert len(str(raised.value).splitlines()) == 1


def test_it_is_told_on_the_page_and_side_by_side(evaluated: tuple[hba.EvaluationResult, Path]) -> None:
    _, out = evaluated
    rows = content_of(out)["rows"]
    page = check_page((out / "report.html").read_text(encoding="utf-8"))
    table = page.table_with("loss of each seed")
    for told, row in zip(table[1:], rows, strict=True):
        found = row["test_loss"]
        assert told[:3] == [row["name"], f"{found['mean']:.3f}", f"{found['std']:.3f}"]
        assert told[3].split() == [f"{loss:.3f}" for loss in found["nats"]]
    minus = rows[1]["test_loss"]["schedule_minus_row"]
    assert table[2][4] == "{:+.3f} ({:+.3f} to {:+.3f})".format(minus["mean"], *minus["interval"])
    compared = {name: cell for name, cell in hba.compare(out).tables()[TEST_LOSS].rows}
    assert compared == {"the schedule": table[1][1], "none": table[2][1]}


def test_it_is_kept_of_a_schedule_of_regularizers_too() -> None:
    schedule = alone()
    without_dropout = schedule.space.regularizers[1:]
    space = hba.SearchSpace((), count_probabilities=(1.0,), regularizers=without_dropout)
    result = hba.evaluate(hba.Schedule(space, schedule.values[:, 1:]), tiny_data(), **{**SETTINGS, "seeds": 1})
    assert all(math.isfinite(loss) for row in result.rows for loss in row.test_loss_by_seed.values())
    mine, none = (row.test_loss_by_seed[0] for row in result.rows)
    assert mine != none, "weight decay and holes are felt"
