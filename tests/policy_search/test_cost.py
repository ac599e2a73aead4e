"""How many probes a search can afford: a tenth of what it costs, counted in passes of images through the network."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from search_problems import SMALL_SETTINGS, small_config, small_data
from search_steps import algorithm_of, begun, step
from torch import Tensor, nn

import hba
from hba.algorithms import LambdaSteps
from hba.algorithms.update_schedule import UpdateSchedule
from hba.policy_search.config import SearchConfig
from hba.policy_search.cost import probe_cost, probes_within, round_cost, search_cost, trained_share
from hba.policy_search.probes import probe

GRADIENT_ALGORITHMS = ["hba", "fixed-noise", "lookahead", "hba-lookahead"]


def pace_of(config: SearchConfig, steps_per_epoch: int) -> UpdateSchedule:
    return config.algorithm.update_schedule.at(steps_per_epoch)


def cost_of(config: SearchConfig, steps_per_epoch: int, batch_size: int, n_val: int) -> float:
    assert isinstance(config.algorithm, LambdaSteps)
    return search_cost(config, config.algorithm, pace_of(config, steps_per_epoch), batch_size, n_val)


def probes_of(config: SearchConfig, steps_per_epoch: int, batch_size: int, n_val: int) -> int:
    return probes_within(config, config.algorithm, pace_of(config, steps_per_epoch), batch_size, n_val)


def test_a_search_of_digits_that_is_asked_for_ten_probes_has_four() -> None:
    """600 training steps of 100 images, and 120 policy steps of 50 validation images and 400 draws; a probe is twice
    ten steps and five batches forward.
    """
    config = SearchConfig.from_preset({"data": "digits", "probes": 10})
    assert cost_of(config, 2, 100, 500) == pytest.approx(600 + 120 * (0.5 + 4 * 2 / 3))
    assert probe_cost(100, 500) == pytest.approx(2 * (10 + 5 / 3))
    assert probes_of(config, 2, 100, 500) == 4
    assert probes_of(SearchConfig.from_preset({"data": "digits", "probes": 2}), 2, 100, 500) == 2
    assert probes_of(SearchConfig.from_preset({"data": "digits", "probes": 10, "algorithm": "hba"}), 2, 100, 500) == 3
    assert probes_of(SearchConfig.from_preset({"data": "digits", "probes": 10, "epochs": 3000}), 2, 100, 500) == 10


@pytest.mark.parametrize(
    ("settings", "n_val", "expected"),
    [
        # 50 validation images, or the 40 or 60 that there are, and 400 draws in forward mode; then twice that.
        ({}, 500, 0.5 + 4 * 2 / 3),
        ({}, 40, 0.4 + 4 * 2 / 3),
        ({"val_batch_size": None}, 60, 0.6 + 4 * 2 / 3),
        ({"val_steps": 2}, 60, 2 * (0.5 + 4 * 2 / 3)),
        ({"algorithm": "hba"}, 500, 1.0),
        ({"algorithm": "population"}, 500, None),
    ],
)
def test_what_policy_steps_in_a_row_cost(settings: dict[str, Any], n_val: int, expected: float | None) -> None:
    config = SearchConfig.from_preset({"data": "digits", **settings})
    assert round_cost(config, config.algorithm, 100, n_val) == (expected and pytest.approx(expected))


@pytest.mark.parametrize("algorithm", GRADIENT_ALGORITHMS)
@pytest.mark.parametrize(("epochs", "n_val"), [(12, 77), (66, 77), (200, 77), (200, 5000), (2000, 77), (20000, 500)])
def test_probes_take_a_tenth_at_most_and_as_much_of_it_as_they_may(algorithm: str, epochs: int, n_val: int) -> None:
    config = small_config(algorithm=algorithm, epochs=epochs, batch_size=128, train_steps=4, probes=10)
    n_probes = probes_of(config, 2, 128, n_val)
    most = 0.1 * cost_of(config, 2, 128, n_val)
    assert n_probes * probe_cost(128, n_val) <= most
    assert n_probes == 10 or (n_probes + 1) * probe_cost(128, n_val) > most
    assert epochs > 12 or n_probes == 0


@pytest.mark.parametrize("settings", [{"algorithm": "population"}, {"algorithm": "hyper-population"}, {},
                                      {"probes": 10, "val_steps": 0},
                                      {"probes": 10, "epochs": 1, "train_steps": 99}])  # fmt: skip
def test_where_none_are_asked_for_or_nothing_moves_there_are_no_probes(settings: dict[str, Any]) -> None:
    assert probes_of(small_config(**{"epochs": 20000, **settings}), 2, 128, 77) == 0


class Counting(nn.Module):
    """Counts images: forward in training, forward alone, and in forward mode."""

    def __init__(self) -> None:
        super().__init__()
        self.bn, self.linear = nn.BatchNorm2d(3), nn.Linear(3 * 64, 2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(self.linear(self.bn(x).flatten(1)))


def test_a_probe_costs_what_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    task, state = begun(network=Counting(), algorithm="lookahead", calibrate=False)
    step(task, state, 4)
    images = {"backward": 0, "forward": 0}
    forward = Counting.forward

    def count(self: Counting, x: Tensor) -> Tensor:
        images["backward" if torch.is_grad_enabled() else "forward"] += len(x)
        return forward(self, x)

    monkeypatch.setattr(Counting, "forward", count)
    data = task.data
    probe(algorithm_of(task), task, state, epoch=1)
    assert images == {"backward": 2 * 10 * 8, "forward": 2 * len(data.val)}
    assert probe_cost(8, len(data.val)) == pytest.approx((images["backward"] + images["forward"] / 3) / 8)


@pytest.mark.parametrize(("derivative", "n_passes"), [("exact", 1), ("auto", 2)])
def test_a_policy_step_of_look_ahead_costs_what_is_counted(
    derivative: str, n_passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A validation batch forward and backward, and every draw once in forward mode, or twice forward alone."""
    settings: dict[str, Any] = {"val_batch_size": 12, "val_batches": 2, "reward_draws": 3, "train_steps": 1}
    settings |= {"warm_up_epochs": 0, "reward_derivative": derivative}
    task, state = begun(network=Counting(), algorithm="lookahead", calibrate=False, **settings)
    seen: list[int] = []
    cross_entropy = F.cross_entropy

    def count(logits: Tensor, labels: Tensor, **options: Any) -> Tensor:
        seen.append(len(labels))
        return cross_entropy(logits, labels, **options)

    monkeypatch.setattr(F, "cross_entropy", count)
    step(task, state)
    assert seen == [8, 12, 12, *[8, 8, 8] * n_passes]
    config = task.config.model_copy(update={"epochs": 1})
    one_step = search_cost(config, algorithm_of(task), UpdateSchedule(1, 1, 0, 0.03).at(1), 8, 16)
    assert one_step == pytest.approx((8 + 12 + 12 + 24 * 2 / 3) / 8)


class Told(hba.SearchCallback):
    def __init__(self) -> None:
        self.plans: list[hba.SearchPlan] = []

    def planned(self, plan: hba.SearchPlan) -> None:
        self.plans.append(plan)


@pytest.mark.parametrize(("epochs", "expected"), [(3, 0), (80, 2)])
def test_the_plan_says_how_many_probes_the_search_then_makes(epochs: int, expected: int, tmp_path: Path) -> None:
    told = Told()
    settings: dict[str, Any] = {**SMALL_SETTINGS, "epochs": epochs, "probes": 10, "warm_up_epochs": None}
    result = hba.search(small_data(), out=tmp_path, callback=told, **settings)
    assert result.schedule is not None
    (plan,) = told.plans
    assert plan.probes == len(result.schedule.provenance["probes"]) == expected
    assert plan.policy_steps == result.schedule.provenance["policy_steps"] == 3 * epochs // 2 - 3 * (epochs // 2) // 2
    assert plan.round_cost == 0.5 + 4 * 2 / 3
    assert plan.first_policy_step == 3 * (epochs // 2) // 2 * 2 + 2
    assert all(entry["epoch"] > epochs // 2 for entry in result.schedule.provenance["probes"])
    assert (plan.train_images, plan.val_images, plan.test_images, plan.folder) == (24, 16, None, tmp_path)
    assert (plan.epochs, plan.steps_per_epoch, plan.batch_size, plan.epochs_done) == (epochs, 3, 8, 0)
    assert plan.n_parameters == sum(parameter.numel() for parameter in result.network.parameters())


def test_the_share_that_is_trained_is_that_of_the_products_behind_the_first_trained_layer() -> None:
    """Two layers without a bias, of 9 and of 27 products a pixel, and one of 10 times 4 at the end."""
    layers = [nn.Conv2d(1, 1, 3, bias=False), nn.Conv2d(1, 3, 3, bias=False), nn.Flatten(), nn.Linear(12, 10)]
    network = nn.Sequential(*layers).train()
    assert trained_share(network, (1, 6, 6)) == 1
    assert network.training
    layers[0].requires_grad_(False)
    of_layers = [9 * 16, 27 * 4, 120]
    # The first trained layer needs no gradient of its inputs.
    expected = (2 * sum(of_layers[1:]) - of_layers[1]) / (2 * sum(of_layers))
    assert trained_share(network, (1, 6, 6)) == pytest.approx(expected)
    layers[1].requires_grad_(False)
    assert trained_share(network, (1, 6, 6)) == pytest.approx(120 / (2 * sum(of_layers)))


def test_of_a_frozen_network_draws_cost_as_much_as_training() -> None:
    """Each is but a pass forward; with nothing frozen, a training step is three and a draw two of them."""
    config = SearchConfig.from_preset({"data": "digits"})
    assert round_cost(config, config.algorithm, 100, 500, 0.0) == pytest.approx(0.5 + 4)
    assert round_cost(config, config.algorithm, 100, 500, 1.0) == pytest.approx(0.5 + 4 * 2 / 3)
    assert round_cost(config, config.algorithm, 100, 500, 0.5) == pytest.approx(0.5 + 4 * 1.5 / 2)
    assert probe_cost(100, 500, 0.0) == pytest.approx(2 * (10 + 5))
    by_hba = SearchConfig.from_preset({"data": "digits", "algorithm": "hba"})
    assert round_cost(by_hba, by_hba.algorithm, 100, 500, 0.0) == pytest.approx(1)


def test_the_plan_of_a_network_with_a_frozen_part_counts_it_so() -> None:
    network = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(512, 2))
    network[0].requires_grad_(False)
    network[1].requires_grad_(False)
    told = Told()
    settings = {name: value for name, value in SMALL_SETTINGS.items() if name != "model"}
    hba.search(small_data(), network=network, callback=told, **{**settings, "epochs": 1})  # type: ignore[arg-type]
    (plan,) = told.plans
    share = 1024 / (2 * (27 * 8 * 64 + 1024))
    assert plan.round_cost == pytest.approx(0.5 + 4 * (1 + share) / (1 + 2 * share))


class Noisy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 0.1 * torch.randn_like(x)


def test_counting_draws_nothing_that_the_search_would() -> None:
    frozen = nn.Conv2d(1, 1, 3)
    frozen.requires_grad_(False)
    network = nn.Sequential(frozen, Noisy(), nn.Flatten(), nn.Linear(16, 2))
    before = torch.get_rng_state()
    assert trained_share(network, (1, 6, 6)) < 1
    assert torch.equal(torch.get_rng_state(), before)
