"""Passes in bfloat16: near those in single precision, faster only where asked for, and the same weights' names."""

import copy
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from search_problems import SMALL_SETTINGS, StopAfter, WithDropout, small_data
from small_trainings import one_operation, tiny_data
from torch import Tensor, nn
from torch.func import functional_call

import hba
from hba.algorithms.derivatives import RewardDerivative
from hba.algorithms.lookahead import rewards_of
from hba.algorithms.scores import AugmentedBatch
from hba.config.evaluation import EvaluationConfig
from hba.distributed.whole_batch import batch_norm
from hba.errors import SettingsError
from hba.models import build_model
from hba.training import amp
from hba.training.amp import enable_amp, full_precision, slow_note, whole_passes
from hba.training.optim import optimizer_for

SETTINGS: dict[str, Any] = {"epochs": 2, "batch_size": 20, "device": "cpu", "seeds": 2, "model": "wrn-10-1"}
RELATIVE = 2.0**-8
"""Half of the distance between neighbouring numbers in bfloat16, which has 8 bits of fraction with the hidden one."""


class Told(nn.Module):
    """A layer that notes in what its input is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 3)
        self.seen: list[tuple[torch.dtype, bool]] = []

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        self.seen.append((y.dtype, x.is_contiguous(memory_format=torch.channels_last)))
        return y


def images() -> Tensor:
    return torch.rand(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def test_layers_compute_in_bfloat16_and_the_outside_sees_single_precision() -> None:
    network: Any = enable_amp(Told())
    output = network(images())
    assert network.seen == [(torch.bfloat16, True)]
    assert output.dtype == torch.float32
    with full_precision():
        network(images())
    assert network.seen[-1] == (torch.float32, True)
    assert network.layer.weight.dtype == torch.float32
    torch.mm(torch.ones(2, 2), torch.ones(2, 2)).sum()
    assert not torch.is_autocast_enabled("cpu"), "nothing is left behind"


def test_outputs_and_gradients_are_those_of_single_precision_to_eight_bits() -> None:
    exact = build_model("wrn-10-1", 10, 0, 8)
    near = enable_amp(copy.deepcopy(exact))
    assert list(near.state_dict()) == list(exact.state_dict())
    labels = torch.arange(6)
    losses = [F.cross_entropy(network(images()), labels) for network in (exact, near)]
    for loss in losses:
        loss.backward()
    assert losses[1] != losses[0]
    assert losses[1].item() == pytest.approx(losses[0].item(), rel=8 * RELATIVE)
    for (name, one), other in zip(exact.named_parameters(), near.parameters(), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert other.grad.dtype == torch.float32
        assert F.cosine_similarity(one.grad.flatten(), other.grad.flatten(), dim=0) > 0.95, name
    for name, statistics in exact.named_buffers():
        torch.testing.assert_close(near.get_buffer(name), statistics, rtol=8 * RELATIVE, atol=1e-3)


def test_a_copy_and_a_functional_call_make_their_own_passes() -> None:
    network: Any = enable_amp(Told())
    other = copy.deepcopy(network)
    with torch.no_grad():
        other.layer.weight.zero_()
    assert (other(images()) == other.layer.bias.to(torch.bfloat16).float()[:, None, None]).all()
    weights = {name: torch.zeros_like(one) for name, one in network.named_parameters()}
    assert (functional_call(network, weights, (images(),)) == 0).all()


def test_a_network_that_fails_leaves_single_precision_behind() -> None:
    network = enable_amp(nn.Linear(3, 2))
    with pytest.raises(RuntimeError):
        network(torch.ones(1, 5))
    assert not torch.is_autocast_enabled("cpu")
    assert not amp._entered


def test_steps_through_all_weights_at_once_are_those_of_one_after_the_other() -> None:
    """A fused step goes by memory, in which gradients must lie as weights do: with channels last."""
    networks = [enable_amp(build_model("wrn-10-1", 10, seed=0, image_size=8)) for _ in range(2)]
    plain, fused = (
        optimizer_for(EvaluationConfig.make({"fast": value}), network.parameters(), 5)[0]
        for value, network in zip((False, True), networks, strict=True)
    )
    assert [one.defaults["fused"] for one in (plain, fused)] == [None, True]
    for number in range(5):
        F.cross_entropy(networks[1](images()), (torch.arange(6) + number) % 10).backward()
        for one, other in zip(*(network.parameters() for network in networks), strict=True):
            one.grad = None if other.grad is None else other.grad.clone()
        for optimizer in (plain, fused):
            optimizer.step()
        for one, other in zip(*(network.parameters() for network in networks), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)


def test_where_no_step_takes_all_weights_at_once_it_is_the_usual_one() -> None:
    weights = [torch.zeros(2, device="meta", requires_grad=True)]
    optimizer, _ = optimizer_for(EvaluationConfig.make({"fast": True}), [{"params": weights}], 5)
    assert optimizer.defaults["fused"] is None


def test_rewards_are_those_of_single_precision() -> None:
    """Along the same direction, at the same weights."""
    exact = build_model("wrn-10-1", 10, 0, 8).eval()
    near = enable_amp(copy.deepcopy(exact))
    trial: Any = AugmentedBatch(images(), torch.arange(6), *(None,) * 4)  # type: ignore[arg-type]
    direction = {name: torch.randn_like(one) for name, one in exact.named_parameters()}
    derivatives: tuple[RewardDerivative, ...] = ("difference", "exact")
    for derivative in derivatives:
        found = [rewards_of(one, trial, direction, derivative=derivative) for one in (exact, near)]
        assert (found[1] - found[0]).abs().max() < 0.02 * found[0].abs().max(), derivative


def test_a_search_and_an_evaluation_are_fast_where_asked_for(tmp_path: Path) -> None:
    settings: dict[str, Any] = {**SMALL_SETTINGS, "out": tmp_path / "fast"}
    result = hba.search(small_data(), fast=True, **settings)
    found = result.schedule
    assert not result.network._forward_pre_hooks, "it is left to its user as it was"
    assert not result.network._forward_hooks
    plain = hba.search(small_data(), **SMALL_SETTINGS).schedule  # type: ignore[arg-type]
    assert found is not None
    assert plain is not None
    assert found.provenance["settings"]["fast"] is True
    assert (found.values != plain.values).any()
    low, high = np.array(found.space.ranges).T
    assert (abs(found.values - plain.values) / abs(high - low)).max() < 0.1, "after a few steps"
    invert = one_operation("Invert", [[0.0], [1.0]])
    rows = [hba.evaluate(invert, tiny_data(), fast=value, **SETTINGS).rows[0] for value in (True, True, False)]
    assert rows[0] == rows[1]
    assert rows[0].test_loss != rows[2].test_loss
    assert rows[0].test_loss == pytest.approx(rows[2].test_loss, rel=0.2)


def test_a_resumed_search_finds_the_same(tmp_path: Path) -> None:
    settings: dict[str, Any] = {**SMALL_SETTINGS, "fast": True}
    whole = hba.search(small_data(), out=tmp_path / "whole", **settings)
    hba.search(small_data(), out=tmp_path / "parts", callback=StopAfter(4), **settings)
    resumed = hba.search(small_data(), out=tmp_path / "parts", resume=True)
    assert whole.schedule is not None
    assert resumed.schedule is not None
    assert (resumed.schedule.values == whole.schedule.values).all()
    for name, weight in whole.network.state_dict().items():
        assert torch.equal(resumed.network.state_dict()[name], weight), name


def test_a_network_of_ones_own_is_left_as_it_was() -> None:
    network = WithDropout()
    hba.search(small_data(), network=network, fast=True, **{k: v for k, v in SMALL_SETTINGS.items() if k != "model"})  # type: ignore[arg-type]
    assert not network._forward_hooks


def test_other_algorithms_refuse_it() -> None:
    with pytest.raises(SettingsError, match=r"^fast does not go with the algorithm hba, only with lookahead; omit it$"):
        hba.search(small_data(), algorithm="hba", fast=True, **SMALL_SETTINGS)  # type: ignore[arg-type]


def test_sums_over_processes_are_taken_in_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hba.distributed.whole_batch.all_sum", lambda tensor: tensor)
    features = (100 + torch.randn(64, 3, 8, 8, generator=torch.Generator().manual_seed(0))).bfloat16()
    expected = F.batch_norm(features.float(), None, None, training=True).bfloat16()
    found = batch_norm(features, None, None, training=True)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, expected, rtol=2 * RELATIVE, atol=2 * RELATIVE)


def test_a_processor_without_bfloat16_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "flags : fpu avx2 avx512f")
    assert slow_note(torch.device("cpu")) == "fast: this cpu has no instructions for bfloat16, and may be slower by it"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "flags : fpu avx512_bf16")
    assert slow_note(torch.device("cpu")) is None


class Interrupted(nn.Module):
    """Ctrl-C in the middle of a pass."""

    def forward(self, x: Tensor) -> Tensor:
        raise KeyboardInterrupt


def test_ctrl_c_in_the_middle_of_a_pass_leaves_nothing_in_bfloat16() -> None:
    with pytest.raises(KeyboardInterrupt), whole_passes():
        enable_amp(Interrupted())(images())
    assert not torch.is_autocast_enabled("cpu")
    assert nn.Linear(2, 2)(torch.zeros(1, 2)).dtype == torch.float32


@pytest.mark.parametrize("function", [hba.search, partial(hba.evaluate, one_operation("Invert", [[0.0]]))])
def test_so_it_is_in_a_search_and_in_an_evaluation(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the last layer, in a training step."""

    def interrupt(self: nn.Linear, x: Tensor) -> Tensor:
        if x.requires_grad:
            raise KeyboardInterrupt
        return F.linear(x, self.weight, self.bias)

    monkeypatch.setattr(nn.Linear, "forward", interrupt)
    settings = {"epochs": 1, "batch_size": 20, "train_size": 40, "model": "wrn-10-1", "image_size": 8}
    with pytest.raises(KeyboardInterrupt):
        function("digits", fast=True, **settings)
    assert not torch.is_autocast_enabled("cpu")


@pytest.mark.gpu
def test_on_a_gpu_layers_compute_in_bfloat16_and_a_search_ends() -> None:
    network: Any = enable_amp(Told()).cuda()
    assert network(images().cuda()).dtype == torch.float32
    assert network.seen == [(torch.bfloat16, True)]
    result = hba.search(small_data(), fast=True, **{**SMALL_SETTINGS, "device": "cuda"})  # type: ignore[arg-type]
    assert result.finished


def without_model(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != "model"}


class Views(nn.Module):
    """As many tutorials write it: the order in memory is that of single precision."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(3, 4, 3), nn.Linear(4 * 36, 2)

    def forward(self, x: Tensor) -> Any:
        return self.linear(self.conv(x).relu().view(len(x), -1))


class Averages(nn.Module):
    """It mixes what it computed with a buffer, of which one is in bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3 * 64, 2)
        self.register_buffer("mean", torch.zeros(2))

    def forward(self, x: Tensor) -> Any:
        y = self.linear(x.flatten(1))
        if self.training:
            cast(Tensor, self.mean).lerp_(y.detach().mean(0), 0.1)
        return y


@pytest.mark.parametrize(("network", "reason"), [(Views(), "view size is not"), (Averages(), "dtype")])
def test_a_network_that_it_does_not_go_with_is_refused_in_one_line(network: nn.Module, reason: str) -> None:
    runs: list[Callable[..., Any]] = [
        partial(hba.search, small_data(), network=network, **without_model(SMALL_SETTINGS)),
        partial(
            hba.evaluate, one_operation("Invert", [[0.5]]), tiny_data(), network=network, **without_model(SETTINGS)
        ),
    ]
    for run in runs:
        with pytest.raises(SettingsError, match=rf"^fast does not go with this network \(.*{reason}.*\); omit it$"):
            run(fast=True)
        assert run(fast=False)


def test_weights_of_five_axes_stay_as_they_are() -> None:
    """As a convolution in three dimensions has, or a layer of timm's lambda networks."""
    network = nn.Sequential(nn.Unflatten(1, (1, 3)), nn.Conv3d(1, 2, 3), nn.Flatten(), nn.Linear(2 * 36, 2))
    assert enable_amp(network)(images()).shape == (6, 2)
    assert hba.search(small_data(), network=network, fast=True, **without_model(SMALL_SETTINGS)).finished


def test_what_is_tried_draws_and_changes_nothing() -> None:
    network = enable_amp(
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(), nn.Flatten(), nn.Linear(144, 2))
    )
    before, drawn = copy.deepcopy(network.state_dict()), torch.get_rng_state()
    amp.check_passes(network, (3, 8, 8))
    assert torch.equal(torch.get_rng_state(), drawn)
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    assert all(weight.grad is None for weight in network.parameters())
