"""What an evaluation keeps beside the error: confusion matrices and balanced accuracy, against scikit-learn."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.stats import ttest_rel
from sklearn.metrics import balanced_accuracy_score, confusion_matrix
from small_trainings import one_operation, tiny_data

import hba
from hba.data import EvaluationData, LabelledImages
from hba.data.loader import as_floats
from hba.preprocessing.preprocessing import Preprocessing
from hba.training.augmentation import augmentation_of
from hba.training.trainer import train

DIM = one_operation("Brightness", [[1.0, 0.5]])
SETTINGS: dict[str, Any] = {"model": "wrn-10-1", "epochs": 1, "batch_size": 20, "device": "cpu", "seeds": 3}


def uneven() -> EvaluationData:
    """Fifteen test images of one class, five of the other."""
    data = tiny_data()
    assert isinstance(data.test, LabelledImages)
    kept = torch.cat([torch.arange(0, 30, 2), torch.arange(1, 10, 2)])
    names = ("left", "bytes \udcff")
    return EvaluationData("tiny", names, data.train, LabelledImages(data.test.images[kept], data.test.labels[kept]))


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> tuple[hba.EvaluationResult, Path]:
    out = tmp_path_factory.mktemp("uneven")
    return hba.evaluate(DIM, uneven(), out=out, **SETTINGS), out


def content_of(out: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((out / "results.json").read_text(encoding="utf-8"))
    return content


def test_they_are_those_of_each_trained_network(evaluated: tuple[hba.EvaluationResult, Path]) -> None:
    result, out = evaluated
    data = uneven()
    assert isinstance(data.test, LabelledImages)
    prepare = Preprocessing.of(data.train, result.config.baseline_augmentation(), None).measure
    (row, _), (stored, _) = result.rows, content_of(out)["rows"]
    for seed in row.seeds:
        trained = train(result.config, data, augmentation_of(DIM), seed)
        with torch.no_grad():
            answers = trained.network.eval()(prepare(as_floats(data.test.images))).argmax(1).tolist()
        labels = data.test.labels.tolist()
        kept = row.confusion[seed]
        assert kept is not None
        assert kept.matrix().tolist() == confusion_matrix(labels, answers, labels=[0, 1]).tolist()
        expected = pytest.approx(100 * balanced_accuracy_score(labels, answers))
        assert row.balanced_accuracy_percent[seed] == stored["balanced_accuracy"]["percent"][seed] == expected
        in_file = {(int(label), int(answer)): n for label, found in stored["confusion"][seed].items()
                   for answer, n in found.items()}  # fmt: skip
        assert in_file == {(label, answer): n for label, answer, n in kept.cells}
        assert trained.test.error_percent == row.by_seed()[seed]
    assert content_of(out)["class_names"] == ["left", "bytes \\udcff"]


def test_their_difference_is_paired_by_seed_as_that_of_errors_is(evaluated: tuple[hba.EvaluationResult, Path]) -> None:
    result, out = evaluated
    mine, none = (list(row.balanced_accuracy_percent.values()) for row in result.rows)
    assert len({a - b for a, b in zip(mine, none, strict=True)}) > 1, "there is a spread"
    interval = ttest_rel(mine, none).confidence_interval(0.95)
    found = content_of(out)["rows"][1]["balanced_accuracy"]["schedule_minus_row"]
    assert found["n_pairs"] == 3
    assert found["mean"] == pytest.approx(sum(mine) / 3 - sum(none) / 3)
    assert found["interval"] == pytest.approx([interval.low, interval.high])
    assert result.is_unbalanced


def test_an_evaluation_from_before_is_resumed_without_them(tmp_path: Path) -> None:
    hba.evaluate(DIM, uneven(), out=tmp_path, **{**SETTINGS, "seeds": 1})
    content = content_of(tmp_path)
    del content["class_names"]
    for row in content["rows"]:
        del row["confusion"], row["balanced_accuracy"]
    (tmp_path / "results.json").write_text(json.dumps(content), encoding="utf-8")
    hba.write_report(tmp_path)
    assert "Which classes are confused" not in (tmp_path / "report.html").read_text(encoding="utf-8")
    result = hba.evaluate(DIM, uneven(), out=tmp_path, resume=True, **SETTINGS)
    whole = hba.evaluate(DIM, uneven(), **SETTINGS)
    for row, expected in zip(result.rows, whole.rows, strict=True):
        assert row.test_error_percent == expected.test_error_percent
        assert row.confusion == (None, *expected.confusion[1:])
    stored = content_of(tmp_path)["rows"][1]
    assert stored["confusion"][0] is stored["balanced_accuracy"]["percent"][0] is None
    assert stored["balanced_accuracy"]["schedule_minus_row"]["n_pairs"] == 2
    assert result.balanced_accuracy_differences["none"] is not None
    assert "Which classes are confused" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("confusion", "said"),
    [
        ([{"0": {"2": 1}}] * 3, "labels of 0 to 1"),
        ([{"0": {"1": 1}}], "one confusion matrix for each seed"),
        ([{"0": {"1": "many"}}] * 3, r"rows\[0\]\.confusion\[0\]"),
    ],
)
def test_a_damaged_matrix_is_refused_in_one_line(
    evaluated: tuple[hba.EvaluationResult, Path], confusion: Any, said: str, tmp_path: Path
) -> None:
    content = content_of(evaluated[1])
    content["rows"][0]["confusion"] = confusion
    (tmp_path / "results.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(hba.HbaError, match=said) as raised:
        hba.write_report(tmp_path)
    assert len(str(raised.value).splitlines()) == 1
