"""Training: the order of the augmentations, the policy of each epoch, and what is
measured when.
"""

from typing import Any

import numpy as np
import pytest
import torch
from small_trainings import (
    BATCH,
    EPOCHS,
    N_TEST,
    N_TRAIN,
    STEPS,
    guarded_data,
    one_operation,
    tiny_data,
    two_sides,
)
from torch import Tensor, nn

from hba.config.evaluation import EvaluationConfig
from hba.data import EvaluationData, LabelledImages
from hba.schedule.schedule import Schedule
from hba.training.augmentation import ScheduleAugmentation
from hba.training.trainer import train

SETTINGS = {
    "data": "tiny",
    "model": "wrn-10-1",
    "epochs": EPOCHS,
    "batch_size": BATCH,
    "device": "cpu",
}

GREYS = np.linspace(10, 250, N_TRAIN).round()
"""Levels of images that are of one grey each, so that an augmented one can be told from
its brightest pixel.
"""


def grey_data() -> EvaluationData:
    images = (
        torch.tensor(GREYS, dtype=torch.uint8)[:, None, None, None]
        .expand(N_TRAIN, 3, 8, 8)
        .contiguous()
    )
    return EvaluationData(
        "tiny",
        ("even", "odd"),
        LabelledImages(images, torch.arange(N_TRAIN) % 2),
        two_sides(N_TEST, seed=1),
    )


class Recorder(nn.Module):
    """Keeps the batches that it trains on; answers by the mean of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.seen.append(x.detach().clone())
        return x.mean(dim=(1, 2, 3))[:, None] * self.weight


def batches_of(
    monkeypatch: pytest.MonkeyPatch,
    schedule: Schedule | None,
    data: EvaluationData,
    seed: int = 0,
    **settings: Any,
) -> Tensor:
    """What the network sees, (epochs, images, C, H, W)."""
    recorder = Recorder()
    monkeypatch.setattr("hba.training.trainer.build_model", lambda *_: recorder)
    config = EvaluationConfig.make({**SETTINGS, **settings})
    train(config, data, ScheduleAugmentation(schedule), seed)
    return torch.cat(recorder.seen).reshape(config.epochs, len(data.train), 3, 8, 8)


def test_the_policy_comes_before_standardisation_and_both_before_crop_and_cutout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    invert = one_operation("Invert", [[1.0]])
    seen = batches_of(
        monkeypatch, invert, grey_data(), flip=True, crop_padding=2, cutout_size=4
    )
    # By the statistics of the training images.
    inverted = (255 - GREYS - GREYS.mean()) / GREYS.std()
    # An image is one colour but for what crop and Cutout uncover, which is the mean
    # colour: 0 behind standardisation.
    pixels = seen.double().flatten(2).numpy()
    colors = np.take_along_axis(
        pixels, np.abs(pixels).argmax(axis=2)[..., None], axis=2
    )
    is_uncovered = pixels == 0
    is_color = pixels == colors
    assert (is_uncovered | is_color).all()
    assert (is_uncovered.sum(axis=2) >= 3 * 4).all(), (
        "in a corner, Cutout covers 2 x 2 pixels of each channel"
    )
    assert is_color.any(axis=2).all()
    for epoch in range(EPOCHS):
        np.testing.assert_allclose(
            np.sort(colors[epoch, :, 0]), np.sort(inverted), atol=1e-4
        )
    assert len({row.tobytes() for row in is_uncovered.reshape(-1, 192)}) > 40, (
        "each image has draws of its own"
    )


def test_each_epoch_trains_with_its_row_of_the_stretched_schedule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for rows, expected in (
        ([0.4, 1.0, 0.2], [0.4, 0.7, 1.0, 0.6, 0.2]),
        ([0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8], [0.2, 0.8]),
        ([0.4, 1.0], [0.7]),
    ):
        dim = one_operation("Brightness", [[1.0, factor] for factor in rows])
        seen = batches_of(monkeypatch, dim, grey_data(), epochs=len(expected))
        levels = seen[:, :, 0, 0, 0].double().numpy() * GREYS.std() + GREYS.mean()
        factors = np.sort(levels, axis=1) / GREYS
        np.testing.assert_allclose(
            factors, np.broadcast_to(factors[:, -1:], factors.shape), rtol=1e-2
        )
        np.testing.assert_allclose(factors[:, -1], expected, rtol=1e-3)


def same_images() -> EvaluationData:
    """Training images that are all alike, so that only what is drawn for them can
    differ.
    """
    images = torch.full((N_TRAIN, 3, 8, 8), 40, dtype=torch.uint8)
    images[:, :, :, :4] = 90
    labels = torch.arange(N_TRAIN) % 2
    return EvaluationData(
        "tiny",
        ("even", "odd"),
        LabelledImages(images, labels),
        two_sides(N_TEST, seed=1),
    )


def test_the_seed_decides_each_of_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    cases: list[tuple[Schedule | None, EvaluationData, dict[str, Any]]] = [
        (None, grey_data(), {}),
        (one_operation("Invert", [[0.5]]), same_images(), {}),
        *(
            (None, same_images(), settings)
            for settings in ({"flip": True}, {"crop_padding": 2}, {"cutout_size": 2})
        ),
    ]
    for schedule, data, settings in cases:
        first, again, other = (
            batches_of(monkeypatch, schedule, data, seed, **settings)
            for seed in (0, 0, 1)
        )
        assert torch.equal(first, again), settings
        assert not torch.equal(first, other), settings


def test_the_measured_numbers_are_those_of_the_returned_network() -> None:
    data = tiny_data()
    test = two_sides(N_TEST, seed=1)
    schedule = one_operation("Brightness", [[0.5, 0.6]])
    config = EvaluationConfig.make({**SETTINGS, "epochs": 10, "learning_rate": 0.1})
    result = train(config, data, ScheduleAugmentation(schedule), seed=0)
    pixels = two_sides(N_TRAIN, seed=0).images.numpy() / 255
    mean, std = (
        statistic(pixels, axis=(0, 2, 3), keepdims=True)
        for statistic in (np.mean, np.std)
    )
    images = torch.tensor((test.images.numpy() / 255 - mean) / std, dtype=torch.float32)
    with torch.no_grad():
        logits = result.network.eval()(images).double().numpy()
    labels = test.labels.numpy()
    losses = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(N_TEST), labels]
    assert result.test.loss == pytest.approx(losses.mean(), rel=1e-3)
    assert result.test.error_percent == pytest.approx(
        100 * (logits.argmax(axis=1) != labels).mean()
    )
    assert result.test.error_percent < 20, "the two classes are easy to tell"


@pytest.mark.parametrize(
    "schedule", [None, one_operation("Invert", [[0.5]])], ids=["none", "schedule"]
)
def test_the_test_split_is_not_read_before_the_last_step(
    schedule: Schedule | None,
) -> None:
    data, guard = guarded_data()
    result = train(
        EvaluationConfig.make(SETTINGS),
        data,
        ScheduleAugmentation(schedule),
        0,
        on_step=guard.step_done,
    )
    assert guard.steps == STEPS
    assert 0 <= result.test.error_percent <= 100
