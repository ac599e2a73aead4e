"""Trainings with a number for each image: errors in their unit, prediction, search."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from random_inputs import seeded
from sklearn.metrics import mean_absolute_error, r2_score
from torch import Tensor, nn

import hba
from hba.algorithms.race_findings import is_symmetry
from hba.algorithms.race_measures import Answers, gaps_of
from hba.data import EvaluationData, LabelledImages, Scale, SearchData
from hba.errors import SettingsError
from hba.results.evaluation import read_results

SETTINGS: dict[str, Any] = {
    "epochs": 6, "batch_size": 8, "learning_rate": 0.1, "device": "cpu",
    "baseline": "none",
}  # fmt: skip
SCALE = Scale(40.0, 12.0)


def network() -> nn.Module:
    return nn.Sequential(
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.BatchNorm1d(3), nn.Linear(3, 1)
    )


def brightness(n_images: int, seed: int) -> LabelledImages:
    """Grey images with noise, whose number is their brightness."""
    levels = torch.rand(n_images, generator=seeded(seed))
    noise = torch.rand(n_images, 3, 8, 8, generator=seeded(seed + 1))
    images = 0.8 * levels[:, None, None, None] + 0.2 * noise
    return LabelledImages(images, (levels - 0.5) / 0.29)


def evaluation_data() -> EvaluationData:
    return EvaluationData(
        "grey", ("brightness",), brightness(64, 0), brightness(30, 2), scale=SCALE
    )


def search_data() -> SearchData:
    return SearchData(
        "grey", ("brightness",), brightness(64, 0), brightness(30, 2), scale=SCALE
    )


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_evaluation_tells_the_error_in_the_unit_of_the_numbers(
    jobs: int, tmp_path: Path
) -> None:
    result = hba.evaluate(
        "crop-flip",
        evaluation_data(),
        against="none",
        network=network(),
        seeds=2,
        jobs=jobs,
        out=tmp_path,
        keep_network=True,
        **SETTINGS,
    )
    kept = hba.load_network(tmp_path)
    assert kept.info.scale == SCALE
    test = brightness(30, 2)
    answers = kept.predict(test.images)[:, 0].numpy()
    numbers = SCALE.numbers(test.labels).numpy()
    first = result.rows[0]
    error = mean_absolute_error(numbers, answers)
    assert first.test_error_percent[0] * SCALE.std / 100 == pytest.approx(error, 1e-3)
    assert first.test_loss[0] is not None
    assert result.test_std is not None
    explained = 1 - first.test_loss[0] / result.test_std**2
    assert explained == pytest.approx(r2_score(numbers, answers), abs=1e-3)
    assert explained > 0.5
    together = result.absolute_error(first.name)
    assert together is not None
    assert together[0] == pytest.approx(np.mean(first.test_error_percent) * 0.12)
    assert result.answer is not None
    assert "brightness" in result.answer.sentence
    assert read_results(tmp_path / "results.json").scale == SCALE


@pytest.mark.parametrize("algorithm", ["race", "lookahead"])
def test_a_search_with_numbers_finds_a_policy(algorithm: str, tmp_path: Path) -> None:
    result = hba.search(
        search_data(),
        network=network(),
        algorithm=algorithm,
        operations=["HorizontalFlip", "Rotate", "Brightness"],
        space="full",
        epochs=6,
        batch_size=8,
        learning_rate=0.1,
        device="cpu",
        out=tmp_path,
    )
    assert result.finished
    assert result.schedule is not None
    assert (tmp_path / "report.html").exists()


def test_numbers_cannot_be_mixed() -> None:
    with pytest.raises(SettingsError, match="mixed"):
        hba.evaluate(
            "timm",
            evaluation_data(),
            against="none",
            network=network(),
            seeds=1,
            **SETTINGS,
        )
    with pytest.raises(SettingsError, match="hypernet"):
        hba.search(search_data(), algorithm="hypernet", epochs=2, device="cpu")


def test_a_move_that_changes_the_number_is_no_symmetry() -> None:
    """A network that knows the numbers, and moved images whose answers differ."""
    numbers = torch.randn(200, generator=seeded(0))
    noise = 0.1 * torch.randn(200, generator=seeded(1))

    def answers(outputs: Tensor) -> Answers:
        return Answers(outputs[:, None], numbers)

    unmoved = answers(numbers + noise)
    same = answers(numbers - noise)
    negated = answers(-numbers + noise)
    gaps = gaps_of(unmoved, [[same], [negated]])
    assert abs(float(gaps[0, 0])) < 0.02
    assert float(gaps[1, 0]) > 0.5


def test_a_network_that_has_learned_little_shows_no_symmetry() -> None:
    """Its gaps are large numbers of any sign."""
    numbers = torch.randn(60, generator=seeded(0))
    guesses = numbers.median() + 0.02 * torch.randn(60, generator=seeded(1)).abs()
    unmoved = Answers((guesses + 0.02 * numbers)[:, None], numbers)
    moved = [
        [
            Answers(
                (guesses + 0.1 * torch.randn(60, generator=seeded(n)))[:, None], numbers
            )
        ]
        for n in range(2, 22)
    ]
    gaps = gaps_of(unmoved, moved)
    assert float(gaps[:, 1].min()) > 0.15
    assert not any(is_symmetry(*gap) for gap in gaps.tolist())
