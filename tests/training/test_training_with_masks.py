"""Trainings with masks: masks move with their images, and what does not suit them is
refused.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from mask_folders import CLASS_NAMES, evaluation_data, search_data, squares
from random_inputs import seeded
from sklearn.metrics import jaccard_score
from torch import Tensor, nn

import hba
from hba.data import LabelledImages
from hba.data.loader import as_floats
from hba.errors import SettingsError
from hba.policy.draw import augment
from hba.policy.spaces import search_space
from hba.report.worst import WORST_NAME, WorstImages
from hba.schedule.recipes import RECIPES
from hba.tasks.segmentation import IGNORED
from hba.training.augmentation import EpochPolicy, ScheduleAugmentation
from hba.training.metrics import logits_of, measure

SETTINGS: dict[str, Any] = {
    "epochs": 3, "batch_size": 8, "learning_rate": 0.3, "device": "cpu", "seeds": 2,
    "baseline": "none",
}  # fmt: skip
MOVES = ("HorizontalFlip", "QuarterTurn", "Rotate", "TranslateX", "Perspective")


def network() -> nn.Module:
    """Logits of each pixel, from its color."""
    return nn.Sequential(nn.BatchNorm2d(3), nn.Conv2d(3, 2, 1))


def test_masks_are_moved_like_the_images_that_they_are_drawn_on() -> None:
    """Images are black and white pictures of their masks."""
    space = search_space("full", operations=MOVES, interpolation="nearest")
    values = space.decode(torch.zeros(space.n))
    _, masks = squares(64)
    images = masks[:, None].expand(-1, 3, -1, -1) * 1.0
    moved, moved_masks, _ = augment(
        space, values, images, masks, seeded(0), torch.full((3,), 0.5)
    )
    assert moved_masks is not None
    is_uncovered = moved_masks == IGNORED
    is_same = (moved[:, 0] > 0.5) == (moved_masks == 1)
    assert 0.01 < is_uncovered.float().mean() < 0.4
    # Perspective interpolates images, but not masks.
    assert is_same[~is_uncovered].float().mean() > 0.98
    assert not torch.equal(moved_masks, masks)


def test_operations_on_color_leave_masks() -> None:
    schedule = RECIPES["none"].make()
    (policy,) = ScheduleAugmentation(schedule).by_epoch(1, LabelledImages(*squares(8)))
    images, masks = squares(8)
    assert isinstance(policy, EpochPolicy)
    _, kept = policy.apply(*policy.tensors, as_floats(images), masks, seeded(0))
    assert kept is not None
    assert torch.equal(kept, masks)


def test_the_error_of_a_split_is_that_of_all_its_pixels() -> None:
    data = evaluation_data(n_test=260).test
    assert isinstance(data, LabelledImages)
    model = network()
    measured = measure(model, data, lambda images: images)
    with torch.no_grad():
        answers = model.eval()(as_floats(data.images)).argmax(1)
    iou = jaccard_score(data.labels.flatten(), answers.flatten(), average="macro")
    assert measured.error_percent == pytest.approx(100 * (1 - iou), abs=1e-4)
    assert measured.image_errors is not None
    mean = 100 * float(measured.image_errors.mean())
    assert mean == pytest.approx(measured.error_percent, abs=1e-3)


def test_an_evaluation_with_masks_has_errors_of_images() -> None:
    result = hba.evaluate(
        "crop-flip", evaluation_data(), against="none", network=network(), **SETTINGS
    )
    for row in result.rows:
        assert max(row.test_error_percent) < 20
        parts = row.image_errors(12)
        for seed, percent in row.by_seed().items():
            assert 100 * parts[seed].mean() == pytest.approx(percent, abs=1e-3)
    assert result.answer is not None
    assert "intersection over union" in result.answer.sentence


def test_the_page_shows_the_worst_images_of_the_saved_network(tmp_path: Path) -> None:
    data = evaluation_data()
    hba.evaluate(
        "crop-flip",
        data,
        against="none",
        network=network(),
        out=tmp_path,
        keep_network=True,
        **SETTINGS,
    )
    worst = WorstImages.load(tmp_path / WORST_NAME)
    assert isinstance(data.test, LabelledImages)
    kept = hba.load_network(tmp_path)
    answers = kept.predict(data.test.images).argmax(1)
    errors = [
        100 - 100 * float(jaccard_score(mask.ravel(), answer.ravel(), average="macro"))
        for mask, answer in zip(data.test.labels, answers, strict=True)
    ]
    expected = sorted(errors, reverse=True)[: len(worst.error_percents)]
    assert worst.error_percents == pytest.approx(expected)
    is_first = (data.test.images == worst.images[0]).flatten(1).all(dim=1)
    (place,) = is_first.nonzero().flatten().tolist()
    assert errors[place] == pytest.approx(max(errors))
    assert torch.equal(worst.masks[0], data.test.labels[place])
    assert torch.equal(worst.answers[0], answers[place].byte())
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"{expected[0]:.0f} % error" in page


def test_logits_of_many_large_masks_are_thinned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = evaluation_data(n_test=6).test
    assert isinstance(data, LabelledImages)
    images = data.images.repeat_interleave(5, 2).repeat_interleave(5, 3)
    labels = data.labels.repeat_interleave(5, 1).repeat_interleave(5, 2)
    large = LabelledImages(images, labels)
    model = network()
    whole, all_labels = logits_of(model, large, lambda images: images)
    assert whole.shape == (6, 2, 80, 80)
    monkeypatch.setattr("hba.training.metrics.MOST_LOGITS", 1000)
    logits, kept = logits_of(model, large, lambda images: images)
    assert logits.shape == (6, 2, 27, 27)
    assert torch.equal(logits, whole[..., ::3, ::3])
    assert torch.equal(kept, all_labels[..., ::3, ::3])


@pytest.mark.parametrize("algorithm", ["race", "lookahead"])
def test_a_search_with_masks_finds_a_policy(algorithm: str) -> None:
    result = hba.search(
        search_data(),
        network=network(),
        algorithm=algorithm,
        operations=["HorizontalFlip", "Rotate", "Brightness"],
        space="full",
        epochs=4,
        batch_size=8,
        learning_rate=0.3,
        device="cpu",
    )
    assert result.finished
    assert result.schedule is not None


class Darker:
    """An augmentation of images alone."""

    definition = "darker"

    def by_epoch(self, epochs: int, train: Any) -> list[Any]:
        return [lambda images, generator: 0.5 * images] * epochs


REFUSED: dict[str, dict[str, Any]] = {
    "unet": {"schedule": "none", "model": "wrn-10-1", "against": "randaugment"},
    "baseline": {"schedule": "none", "flip": True, "against": "randaugment"},
    "mixes": {"schedule": "timm", "against": "none"},
    "images only": {"schedule": "none", "against": [Darker()]},
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_does_not_move_masks_is_refused(message: str) -> None:
    settings = {**SETTINGS, **REFUSED[message]}
    if "model" not in settings:
        settings["network"] = network()
    with pytest.raises(SettingsError, match=message):
        hba.evaluate(data=evaluation_data(), **settings)


def test_a_unet_needs_masks() -> None:
    images, _ = squares(24)
    classes = torch.arange(24) % 2
    data = hba.data.EvaluationData(
        "squares", CLASS_NAMES, *[LabelledImages(images, classes)] * 2
    )
    with pytest.raises(SettingsError, match="unet"):
        hba.evaluate("none", data, model="unet:efficientnet-lite0", **SETTINGS)


def test_moved_masks_keep_their_type() -> None:
    schedule = RECIPES["overhead-randaugment"].make()
    policy = schedule.policy(0, mask_fill=IGNORED)
    images, masks = squares(4)
    moved: Tensor = policy(as_floats(images), masks=masks)[1]
    assert moved.dtype == torch.uint8
