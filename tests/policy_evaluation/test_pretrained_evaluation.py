"""Evaluations that start from pretrained weights: the same for every seed and row, and none but those of the search."""

from pathlib import Path
from typing import Any

import pytest
import torch
from pretrained_networks import SETTINGS, pretrained, weights_file
from small_trainings import one_operation, tiny_data
from torch import Tensor

import hba
from hba.config.evaluation import EvaluationConfig
from hba.errors import SettingsError
from hba.policy_evaluation.callbacks import EvaluationPlan
from hba.training import trainer as training
from hba.training.augmentation import Unchanged

OWN: dict[str, Any] = {name: SETTINGS[name] for name in ("model", "batch_size", "device", "learning_rate")}


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return weights_file(tmp_path)


class Told(hba.EvaluationCallback):
    notes: tuple[str, ...] = ()

    def planned(self, plan: EvaluationPlan) -> None:
        self.notes = plan.notes


def evaluate(weights: Path | None, out: Path | None = None, **settings: Any) -> hba.EvaluationResult:
    given = {} if weights is None else {"pretrained": weights, "freeze": "all-but-head"}
    schedule = settings.pop("schedule", one_operation("Invert", [[0.5]]))
    return hba.evaluate(schedule, tiny_data(), out=out, **{**OWN, "epochs": 1, "seeds": 1, **given, **settings})


def test_all_seeds_start_from_the_file_but_for_the_head(weights: Path) -> None:
    settings = {**OWN, "data": "tiny", "epochs": 1, "pretrained": weights, "freeze": "all-but-head"}
    config = EvaluationConfig.make({**settings, "learning_rate": 1e-30, "weight_decay": 0.0})
    start = config.network_start()
    networks = [training.train(config, tiny_data(), Unchanged(), seed, start=start).network for seed in (0, 0, 1)]
    first, again, other = ({**network.state_dict()} for network in networks)
    expected = pretrained().state_dict()

    def equal(states: tuple[dict[str, Tensor], ...]) -> set[str]:
        return {name for name in expected if all(torch.equal(states[0][name], one[name]) for one in states[1:])}

    assert equal((first, again)) == set(expected)
    assert equal((first, other)) == equal((expected, first)) == set(expected) - {"fc.weight", "fc.bias"}


def test_it_says_what_every_training_starts_from(weights: Path) -> None:
    told = Told()
    evaluate(weights, callback=told)
    (note,) = (note for note in told.notes if note.startswith("Pretrained weights"))
    assert "with a new head for 2 classes, which the seed decides; " in note
    assert note.endswith(" parameters are frozen. Every training starts so, whatever its seed.")


def test_weights_that_do_not_fit_are_refused_before_the_first_training(weights: Path) -> None:
    told = Told()
    with pytest.raises(SettingsError, match="do not fit the model, its head aside: "):
        evaluate(weights, model="timm:resnet18", callback=told)
    assert told.notes == ()


def test_it_is_resumed_with_the_same_weights_only(weights: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    first = evaluate(weights, out)
    again = evaluate(weights.rename(tmp_path / "moved.pth"), out, resume=True, seeds=2)
    assert [row.by_seed()[0] for row in again.rows] == [row.by_seed()[0] for row in first.rows]
    other = weights_file(tmp_path, pretrained(seed=10))
    with pytest.raises(SettingsError, match=r"a resumed evaluation keeps its pretrained weights; .* has .*"):
        evaluate(other, out, resume=True, seeds=2)
    with pytest.raises(SettingsError, match=r"keeps its pretrained weights; .* \(now none\)"):
        evaluate(None, out, resume=True, seeds=2)


def searched_schedule(weights: Path) -> hba.Schedule:
    schedule = one_operation("Invert", [[0.5]])
    sha = hba.config.EvaluationConfig.make({**OWN, "pretrained": weights}).network_start()
    assert sha is not None
    origin = {
        "settings": {**OWN, "data": "tiny", "epochs": 1, "pretrained": str(weights), "freeze": "all-but-head"},
        "pretrained": {"sha256": sha.pretrained.sha256},
    }
    return hba.Schedule(schedule.space, schedule.values, schedule.fill, origin)


def test_the_weights_of_the_search_are_taken_unless_they_have_changed(weights: Path, tmp_path: Path) -> None:
    schedule = searched_schedule(weights)
    result = hba.evaluate(schedule, tiny_data(), seeds=1)
    assert (result.config.pretrained, result.config.freeze) == (str(weights), "all-but-head")
    weights_file(tmp_path, pretrained(seed=10))
    with pytest.raises(SettingsError, match="have changed since the search of the schedule; give the old ones, or"):
        hba.evaluate(schedule, tiny_data(), seeds=1)
    assert hba.evaluate(schedule, tiny_data(), seeds=1, pretrained=weights).pretrained is not None


@pytest.mark.parametrize("name", ["pretrained", "freeze", "standardize_by"])
def test_a_network_of_ones_own_has_none_of_these_settings(name: str) -> None:
    settings: dict[str, Any] = {"network": pretrained(2), name: "none"}
    with pytest.raises(SettingsError, match=f"{name} has no effect on a network of your own"):
        hba.evaluate(one_operation("Invert", [[0.5]]), tiny_data(), **settings)
