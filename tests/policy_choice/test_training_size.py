"""The choice of network, image size and epochs by the time of a training."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from hba.data.look import Look
from hba.errors import SettingsError
from hba.models.timm_networks import LITE
from hba.models.unet import UNET
from hba.policy_search.timing import Rung, StepTimer
from hba.policy_search.training_size import (
    MOST_EPOCHS,
    TrainingRequest,
    fine_tuning_sizes,
    ladder,
    sides_to_try,
    training_size,
)
from hba.tasks import Classification

CPU = torch.device("cpu")


def look(side: int, n_images: int = 1000, *, is_grey: bool = False) -> Look:
    return Look(
        name="d",
        class_names=("a", "b"),
        n_train=n_images,
        n_val=0,
        n_test=n_images // 5,
        has_own_test=False,
        counts=(n_images // 2, n_images // 2),
        task=Classification(),
        side=side,
        is_grey=is_grey,
    )


def choose_training(
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    side: int = 64,
    n_images: int = 1000,
    growth: float = 2,
    **settings: Any,
) -> Mapping[str, Any]:
    """Each rung of the ladder costs `growth` times the one before, 0.1 ms for an image
    on the first.
    """
    seen = look(side, n_images)
    costs = {
        rung: 1e-4 * growth**place for place, rung in enumerate(ladder(seen, settings))
    }
    monkeypatch.setattr(StepTimer, "seconds", lambda self, rung: costs[rung])
    monkeypatch.setattr(StepTimer, "gain", lambda self, rung: 1.0)
    request = TrainingRequest(seen, seconds, seconds, CPU, 1, settings)
    return {**settings, **training_size(request).settings}


def test_more_time_gives_larger_images_then_larger_networks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    choices = [
        choose_training(monkeypatch, 9.0 * 2**place * 1.01) for place in range(7)
    ]
    assert [choice["image_size"] for choice in choices] == [16, 24, 32, 48, 64, 64, 64]
    assert [choice["model"] for choice in choices] == ["wrn-10-1"] * 5 + [
        "wrn-10-2",
        "wrn-16-2",
    ]
    # 90,000 images of a training at least: each rung has the same epochs.
    assert {choice["epochs"] for choice in choices} == {90}


def test_images_are_larger_where_that_takes_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Enough epochs do not fit on any rung; the fifth takes 1.08 times as long as the
    first, the sixth 1.104 times.
    """
    chosen = choose_training(monkeypatch, 3.0, growth=1.02)
    assert (chosen["model"], chosen["image_size"], chosen["epochs"]) == (
        "wrn-10-1",
        64,
        27,
    )
    assert choose_training(monkeypatch, 3.0)["image_size"] == 16


def test_images_are_not_enlarged_and_epochs_are_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = choose_training(monkeypatch, 1e4, side=30)
    assert (chosen["image_size"], chosen["epochs"]) == (24, MOST_EPOCHS)


def test_what_is_given_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_training(monkeypatch, 100.0, epochs=7)["epochs"] == 7
    assert choose_training(monkeypatch, 100.0, model="wrn-16-1")["model"] == "wrn-16-1"
    assert choose_training(monkeypatch, 100.0, image_size=20)["image_size"] == 20
    chosen = choose_training(monkeypatch, 100.0, optimizer="adamw", batch_size=50)
    assert chosen["batch_size"] == 50
    assert "learning_rate" not in chosen


def test_too_little_time_is_refused_and_given_epochs_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(SettingsError, match="budget"):
        choose_training(monkeypatch, 0.3)
    assert choose_training(monkeypatch, 0.3, epochs=20)["epochs"] == 20


def test_of_too_many_images_a_part_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = choose_training(monkeypatch, 15.0, n_images=100_000)
    assert (chosen["train_size"], chosen["val_size"], chosen["epochs"]) == (
        8000,
        2000,
        15,
    )
    assert "train_size" not in choose_training(monkeypatch, 60.0, n_images=100_000)
    with pytest.raises(SettingsError, match="budget"):
        choose_training(monkeypatch, 15.0, n_images=100_000, train_size=90_000)


def test_large_images_get_networks_for_large_images() -> None:
    rungs = ladder(look(300), {})
    assert [rung.side for rung in rungs] == sorted(rung.side for rung in rungs)
    assert rungs[-1] == Rung("resnet-50", 224)
    assert ladder(look(64), {})[-1] == Rung("wrn-28-10", 64)


def choose_fine_tuning(
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    side: int = 64,
    n_images: int = 1000,
    **settings: Any,
) -> Any:
    """Settings of all choices, and images, if an image of 48 pixels costs 10 ms, and
    others in proportion to pixels.
    """
    monkeypatch.setattr(
        StepTimer, "seconds", lambda self, rung: 0.01 * (rung.side / 48) ** 2
    )
    monkeypatch.setattr(StepTimer, "gain", lambda self, rung: 1.0)
    request = TrainingRequest(look(side, n_images), seconds, seconds, CPU, 1, settings)
    return fine_tuning_sizes(["efficientnet-lite0"], request)


def test_fine_tuning_has_the_largest_sizes_for_which_a_few_epochs_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = [
        candidate.settings for candidate in choose_fine_tuning(monkeypatch, 250.0)
    ]
    assert {settings["image_size"]: settings["epochs"] for settings in chosen} == {
        48: 25,
        64: 14,
        96: 6,
    }
    assert all(settings["pretrained"] == "timm" for settings in chosen)
    # Images are enlarged, but only so far.
    assert {
        candidate.settings["image_size"]
        for candidate in choose_fine_tuning(monkeypatch, 1e4, side=20)
    } == {48}
    assert {
        candidate.settings["image_size"]
        for candidate in choose_fine_tuning(monkeypatch, 1e4, side=64)
    } == {64, 96, 128}
    assert {
        candidate.settings["epochs"]
        for candidate in choose_fine_tuning(monkeypatch, 200.0, image_size=96)
    } == {5}


def test_a_network_that_takes_one_size_only_gets_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def seconds(timer: StepTimer, rung: Rung) -> float:
        if rung.side != 96:
            raise SettingsError(f"cannot take images of {rung.side}x{rung.side}")
        return 0.001

    monkeypatch.setattr(StepTimer, "seconds", seconds)
    monkeypatch.setattr(StepTimer, "gain", lambda self, rung: 1.0)
    request = TrainingRequest(look(64), 100.0, 100.0, CPU, 1, {})
    candidates = fine_tuning_sizes(["efficientnet-lite0"], request)
    assert {candidate.settings["image_size"] for candidate in candidates} == {96}
    with pytest.raises(SettingsError, match="cannot take"):
        fine_tuning_sizes(
            ["efficientnet-lite0"], replace(request, settings={"image_size": 64})
        )


def test_small_images_get_the_size_of_a_network_that_takes_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def seconds(timer: StepTimer, rung: Rung) -> float:
        if rung.side != 224:
            raise SettingsError(f"cannot take images of {rung.side}x{rung.side}")
        return 0.001

    monkeypatch.setattr(StepTimer, "seconds", seconds)
    monkeypatch.setattr(StepTimer, "gain", lambda self, rung: 1.0)
    # timm says of the first that it takes one size only, and not of the second.
    for model in ("timm:vit_tiny_patch16_224", "efficientnet-lite0"):
        request = TrainingRequest(look(32), 1000.0, 1000.0, CPU, 1, {})
        candidates = fine_tuning_sizes([model], request)
        assert {candidate.settings["image_size"] for candidate in candidates} == {224}


def test_a_network_of_one_size_is_tried_at_no_other() -> None:
    assert sides_to_try("timm:vit_tiny_patch16_224", 64) == [224]
    assert sides_to_try("timm:maxvit_tiny_tf_384", 224) == [384]
    # Its positions are interpolated.
    assert sides_to_try("timm:vit_small_patch14_dinov2", 64)[0] == 48


def test_masks_get_larger_images_than_classes() -> None:
    """Classes of pixels may be small parts of an image."""
    largest_of_classes = max(sides_to_try(LITE, 10_000))
    assert max(sides_to_try(f"{UNET}{LITE}", 10_000)) > largest_of_classes


def test_of_too_many_images_to_fine_tune_a_part_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    candidates = choose_fine_tuning(monkeypatch, 120.0, n_images=100_000)
    assert {candidate.settings["image_size"] for candidate in candidates} == {48}
    assert {candidate.n_images for candidate in candidates} == {2000}
    with pytest.raises(SettingsError, match="budget"):
        choose_fine_tuning(monkeypatch, 1.0)


def test_steps_of_a_larger_network_are_timed_as_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a clock that counts floating-point operations."""
    counter = FlopCounterMode(display=False)
    clock = SimpleNamespace(perf_counter=counter.get_total_flops)
    monkeypatch.setattr("hba.policy_search.timing.time", clock)
    timer = StepTimer(2, 16, CPU, 1, {"fast": False})
    layer = nn.Linear(3 * 32 * 32, 2)
    own_network = nn.Sequential(nn.Flatten(), layer)
    before = layer.weight.detach().clone()
    with counter:
        assert (
            StepTimer(2, 16, CPU, 1, {"fast": False}, own_network).seconds(
                Rung("own", 32)
            )
            > 0
        )
        assert (
            timer.seconds(Rung("wrn-16-2", 32))
            > timer.seconds(Rung("wrn-10-1", 16))
            > 0
        )
    assert torch.equal(layer.weight, before)
