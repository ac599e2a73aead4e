"""What results.json keeps of each training beside the error: confusion and balanced
accuracy, and the test loss.
"""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from scipy.stats import ttest_rel
from sklearn.metrics import balanced_accuracy_score, confusion_matrix
from small_trainings import one_operation, tiny_data

import hba
from hba.data import EvaluationData, LabelledImages
from hba.data.loader import as_floats
from hba.errors import RunError
from hba.policy_evaluation.evaluation import Result
from hba.preprocessing import Preprocessing
from hba.results.evaluation import EvaluationRow, read_results
from hba.training.augmentation import ScheduleAugmentation
from hba.training.metrics import Measured
from hba.training.trainer import train

DIM = one_operation("Brightness", [[1.0, 0.5]])
SETTINGS: dict[str, Any] = {
    "model": "wrn-10-1", "epochs": 1, "batch_size": 20, "device": "cpu", "seeds": 3,
    "against": "none",
}  # fmt: skip


def uneven() -> EvaluationData:
    """Fifteen test images of one class, five of the other."""
    data = tiny_data()
    assert isinstance(data.test, LabelledImages)
    kept = torch.cat([torch.arange(0, 30, 2), torch.arange(1, 10, 2)])
    names = ("left", "bytes \udcff")
    return EvaluationData(
        "tiny",
        names,
        data.train,
        LabelledImages(data.test.images[kept], data.test.labels[kept]),
    )


@pytest.fixture(scope="module")
def evaluated(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[hba.EvaluationResult, Path]:
    out = tmp_path_factory.mktemp("uneven")
    return hba.evaluate(DIM, uneven(), out=out, **SETTINGS), out


def content_of(out: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(
        (out / "results.json").read_text(encoding="utf-8")
    )
    return content


def test_confusion_accuracy_and_loss_are_those_of_each_trained_network(
    evaluated: tuple[hba.EvaluationResult, Path],
) -> None:
    result, out = evaluated
    data = uneven()
    assert isinstance(data.test, LabelledImages)
    prepare = Preprocessing.of(
        data.train, result.config.baseline_augmentation(), None
    ).measure
    row, _ = result.rows
    stored, _ = content_of(out)["rows"]
    labels = data.test.labels.tolist()
    for seed in row.seeds:
        trained = train(result.config, data, ScheduleAugmentation(DIM), seed)
        with torch.no_grad():
            logits = trained.network.eval()(prepare(as_floats(data.test.images)))
        answers = logits.argmax(1).tolist()
        kept = row.confusion[seed]
        assert kept is not None
        assert (
            kept.matrix().tolist()
            == confusion_matrix(labels, answers, labels=[0, 1]).tolist()
        )
        wrong = [label != answer for label, answer in zip(labels, answers, strict=True)]
        assert (
            read_results(out / "results.json").rows[0].image_errors(20)[seed].tolist()
            == wrong
        )
        expected = pytest.approx(100 * balanced_accuracy_score(labels, answers))
        assert (
            row.by_seed("balanced_accuracy")[seed]
            == stored["balanced_accuracy"]["percent"][seed]
            == expected
        )
        loss = float(F.cross_entropy(logits, data.test.labels))
        assert (
            row.by_seed("test_loss")[seed]
            == stored["test_loss"]["nats"][seed]
            == pytest.approx(loss, rel=1e-5)
        )
        assert trained.test.error_percent == row.by_seed()[seed]
    assert content_of(out)["class_names"] == ["left", "bytes \\udcff"]
    assert stored["test_loss"]["std"] == pytest.approx(
        torch.tensor(stored["test_loss"]["nats"]).std().item()
    )


def test_their_differences_are_paired_by_seed(
    evaluated: tuple[hba.EvaluationResult, Path],
) -> None:
    result, out = evaluated
    for measure in ("balanced_accuracy", "test_loss"):
        mine, none = (list(row.by_seed(measure).values()) for row in result.rows)
        interval = ttest_rel(mine, none).confidence_interval(0.95)
        stored_difference = content_of(out)["rows"][1][measure]["schedule_minus_row"]
        assert (stored_difference["n_pairs"], stored_difference["mean"]) == (
            3,
            pytest.approx(sum(mine) / 3 - sum(none) / 3),
        )
        assert stored_difference["interval"] == pytest.approx(
            [interval.low, interval.high]
        )
    assert result.answer is not None
    assert result.answer.against == result.best_other == "none"


def test_errors_of_images_that_are_no_mistakes_are_kept() -> None:
    parts = torch.tensor([0.25, -0.5, 1.5, 0.0])
    row = EvaluationRow(name="none", definition="none")
    row = row.with_training(3, Measured(1.0, 31.25, None, parts))
    assert row.image_errors(4)[3].tolist() == parts.tolist()
    with pytest.raises(ValueError, match="5 test images"):
        row.image_errors(5)


def test_mistakes_of_another_number_of_images_are_refused(
    evaluated: tuple[hba.EvaluationResult, Path], tmp_path: Path
) -> None:
    content = {**content_of(evaluated[1]), "test_images": 30}
    (tmp_path / "damaged.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(RunError, match="30 test images"):
        read_results(tmp_path / "damaged.json")


def test_a_loss_that_is_not_finite_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = iter([0.5, math.inf, math.nan, 0.25])

    def return_losses(*_: Any) -> Result:
        return Measured(next(losses), 10.0), (), None, None

    monkeypatch.setattr(
        "hba.policy_evaluation.evaluation.train_and_measure", return_losses
    )
    for resume in (False, True):
        result = hba.evaluate(
            DIM, tiny_data(), out=tmp_path, resume=resume, **{**SETTINGS, "seeds": 2}
        )
        assert [row.test_loss for row in result.rows] == [(0.5, None), (None, 0.25)]
    assert result.schedule_minus("test_loss") == {"none": None}
