"""Settings of an earlier evaluation and of pretrained weights: taken over, and refused
where they have changed.
"""

from pathlib import Path
from typing import Any

import pytest
from pretrained_networks import (
    HEAD,
    SETTINGS,
    names_that_differ,
    pretrained,
    weights_file,
)
from small_trainings import one_operation, tiny_data
from torch import nn

import hba
from hba.config.evaluation import EvaluationConfig
from hba.errors import SettingsError
from hba.training import trainer
from hba.training.augmentation import ScheduleAugmentation

OWN: dict[str, Any] = {
    name: SETTINGS[name] for name in ("model", "batch_size", "device", "learning_rate")
}
SCHEDULE = one_operation("Invert", [[0.5]])


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return weights_file(tmp_path)


def evaluate(
    weights: Path | None, out: Path | None = None, **settings: Any
) -> hba.EvaluationResult:
    weight_settings = (
        {} if weights is None else {"pretrained": weights, "freeze": "all-but-head"}
    )
    return hba.evaluate(
        SCHEDULE,
        tiny_data(),
        out=out,
        **{
            **OWN,
            "epochs": 1,
            "seeds": 1,
            "against": (),
            **weight_settings,
            **settings,
        },
    )


def test_all_seeds_start_from_the_file_but_for_the_head(weights: Path) -> None:
    settings = {
        **OWN,
        "data": "tiny",
        "epochs": 1,
        "pretrained": weights,
        "freeze": "all-but-head",
    }
    config = EvaluationConfig.make(
        {**settings, "learning_rate": 1e-30, "weight_decay": 0.0}
    )
    start = config.network_start()
    first, again, other = (
        trainer.train(
            config, tiny_data(), ScheduleAugmentation(None), seed, start=start
        ).network
        for seed in (0, 0, 1)
    )
    assert names_that_differ(first, again) == set()
    assert (
        names_that_differ(first, other)
        == names_that_differ(first, pretrained())
        == HEAD
    )


def test_it_is_resumed_with_the_same_weights_only(
    weights: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    first = evaluate(weights, out)
    again = evaluate(weights.rename(tmp_path / "moved.pth"), out, resume=True, seeds=2)
    assert [row.by_seed()[0] for row in again.rows] == [
        row.by_seed()[0] for row in first.rows
    ]
    for other in (weights_file(tmp_path, pretrained(seed=10)), None):
        with pytest.raises(SettingsError, match="pretrained weights"):
            evaluate(other, out, resume=True, seeds=2)


def test_the_weights_of_the_search_are_taken(weights: Path) -> None:
    settings = {
        **OWN,
        "data": "tiny",
        "epochs": 1,
        "pretrained": str(weights),
        "freeze": "all-but-head",
    }
    schedule = hba.Schedule(
        SCHEDULE.space, SCHEDULE.values, SCHEDULE.fill, {"settings": settings}
    )
    result = hba.evaluate(schedule, tiny_data(), seeds=1, against=())
    assert (result.config.pretrained, result.config.freeze) == (
        str(weights),
        "all-but-head",
    )


def own(seed: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 2))


def test_an_own_network_excludes_settings_of_a_model_and_has_to_be_given_again(
    tmp_path: Path,
) -> None:
    for name in ("pretrained", "freeze", "standardize_by"):
        with pytest.raises(SettingsError, match=f"{name} has no effect"):
            hba.evaluate(SCHEDULE, tiny_data(), network=own, **{name: "none"})  # type: ignore[arg-type]
    settings: dict[str, Any] = {
        "epochs": 1,
        "batch_size": 20,
        "device": "cpu",
        "seeds": 1,
        "against": [],
    }
    hba.evaluate(SCHEDULE, tiny_data(), network=own, out=tmp_path / "own", **settings)
    hba.evaluate(
        SCHEDULE, tiny_data(), model="wrn-10-1", out=tmp_path / "model", **settings
    )
    with pytest.raises(SettingsError, match="network of your own"):
        hba.evaluate(SCHEDULE, tiny_data(), config=tmp_path / "own", against=[])
    for earlier in ("own", "model"):
        again = hba.evaluate(
            SCHEDULE,
            tiny_data(),
            config=tmp_path / earlier,
            network=own,
            device="cpu",
            against=[],
        )
        assert again.config.epochs == 1
        assert again.own_network is not None
