"""A new evaluation with the settings of an earlier one, where networks are the user's own."""

from pathlib import Path
from typing import Any

import pytest
from small_trainings import one_operation, tiny_data
from torch import nn

import hba
from hba.errors import SettingsError

SETTINGS: dict[str, Any] = {"epochs": 1, "batch_size": 20, "device": "cpu", "seeds": 1, "against": []}
SCHEDULE = one_operation("Rotate", [[0.5, 10.0]])


def own(seed: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 2))


def test_an_own_network_is_in_no_file_and_has_to_be_given_again(tmp_path: Path) -> None:
    hba.evaluate(SCHEDULE, tiny_data(), network=own, out=tmp_path / "first", **SETTINGS)
    with pytest.raises(SettingsError, match=r"used a network of your own, which is in no file; give network in Python"):
        hba.evaluate(SCHEDULE, tiny_data(), config=tmp_path / "first", against=[])
    again = hba.evaluate(SCHEDULE, tiny_data(), config=tmp_path / "first", network=own, device="cpu", against=[])
    assert again.config.epochs == 1
    assert again.own_network is not None


def test_an_own_network_takes_the_place_of_a_model_by_name(tmp_path: Path) -> None:
    hba.evaluate(SCHEDULE, tiny_data(), model="wrn-10-1", out=tmp_path / "first", **SETTINGS)
    again = hba.evaluate(SCHEDULE, tiny_data(), config=tmp_path / "first", network=own, device="cpu", against=[])
    assert again.own_network is not None
