"""The choice of network, image size and epochs by the time of a training."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import nn

from hba.data.look import Look
from hba.errors import SettingsError
from hba.policy_search import training_size as module
from hba.policy_search.training_size import MOST_EPOCHS, StepTimer, ladder, training_size

CPU = torch.device("cpu")


def look(side: int, n: int = 1000, *, is_grey: bool = False) -> Look:
    return Look("d", ("a", "b"), n, 0, n // 5, False, (n // 2, n // 2), False, side, is_grey)


def sized(
    monkeypatch: pytest.MonkeyPatch, seconds: float, side: int = 64, n: int = 1000, growth: float = 2, **given: Any
) -> Mapping[str, Any]:
    """Each rung of the ladder costs `growth` times the one before, 0.1 ms for an image on the first."""
    seen = look(side, n)
    costs = {rung: 1e-4 * growth**place for place, rung in enumerate(ladder(seen, given))}
    monkeypatch.setattr(StepTimer, "seconds", lambda self, rung: costs[rung])
    monkeypatch.setattr(StepTimer, "gain", lambda self, rung: 1.0)
    return {**given, **training_size(seen, seconds, CPU, 1, given).settings}


def test_more_time_gives_larger_images_then_larger_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [sized(monkeypatch, 9.0 * 2**place * 1.01) for place in range(7)]
    assert [one["image_size"] for one in found] == [16, 24, 32, 48, 64, 64, 64]
    assert [one["model"] for one in found] == ["wrn-10-1"] * 5 + ["wrn-10-2", "wrn-16-2"]
    # 90,000 images of a training at least: each rung has the same epochs.
    assert {one["epochs"] for one in found} == {90}


def test_images_are_larger_where_that_takes_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough epochs do not fit on any rung; the fifth takes 1.08 times as long as the first, the sixth 1.104 times."""
    found = sized(monkeypatch, 3.0, growth=1.02)
    assert (found["model"], found["image_size"], found["epochs"]) == ("wrn-10-1", 64, 27)
    assert sized(monkeypatch, 3.0)["image_size"] == 16


def test_images_are_not_enlarged_and_epochs_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    found = sized(monkeypatch, 1e4, side=30)
    assert (found["image_size"], found["epochs"]) == (24, MOST_EPOCHS)


def test_what_is_given_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sized(monkeypatch, 100.0, epochs=7)["epochs"] == 7
    assert sized(monkeypatch, 100.0, model="wrn-16-1")["model"] == "wrn-16-1"
    assert sized(monkeypatch, 100.0, image_size=20)["image_size"] == 20
    found = sized(monkeypatch, 100.0, optimizer="adamw", batch_size=50)
    assert found["batch_size"] == 50
    assert "learning_rate" not in found


def test_too_little_time_is_refused_and_given_epochs_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="budget"):
        sized(monkeypatch, 0.3)
    assert sized(monkeypatch, 0.3, epochs=20)["epochs"] == 20


def test_of_too_many_images_a_part_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    found = sized(monkeypatch, 15.0, n=100_000)
    assert (found["train_size"], found["val_size"], found["epochs"]) == (8000, 2000, 15)
    assert "train_size" not in sized(monkeypatch, 60.0, n=100_000)
    with pytest.raises(SettingsError, match="budget"):
        sized(monkeypatch, 15.0, n=100_000, train_size=90_000)


def test_large_images_get_networks_for_large_images_and_pretrained_ones_where_weights_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rungs = ladder(look(300), {})
    assert [side for _, side in rungs] == sorted(side for _, side in rungs)
    assert rungs[-1] == ("resnet-50", 224)
    monkeypatch.setattr(module, "weights_at_hand", lambda name: True)
    assert ladder(look(300), {})[-1] == (module.PRETRAINED, 224)
    assert ladder(look(300, is_grey=True), {})[-1] == ("resnet-50", 224)
    assert ladder(look(64), {})[-1] == ("wrn-28-10", 64)


def test_steps_of_a_larger_network_are_timed_as_longer() -> None:
    timer = StepTimer(look(32), 16, CPU, 1, {"fast": False})
    layer = nn.Linear(3 * 32 * 32, 2)
    own, before = nn.Sequential(nn.Flatten(), layer), layer.weight.detach().clone()
    assert StepTimer(look(32), 16, CPU, 1, {"fast": False, "network": own}).seconds(("own", 32)) > 0
    assert torch.equal(layer.weight, before)
    assert timer.seconds(("wrn-16-2", 32)) > timer.seconds(("wrn-10-1", 16)) > 0
