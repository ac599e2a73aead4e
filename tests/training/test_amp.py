"""Mixed precision: near single precision, only where asked for, and the same weights by
the same names.
"""

import copy
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from search_problems import SMALL_SETTINGS, StopAfter, small_data
from small_trainings import one_operation, tiny_data
from torch import Tensor, nn

import hba
from hba.errors import SettingsError
from hba.models import build_model
from hba.training.amp import amp_forward, enable_amp

SETTINGS: dict[str, Any] = {
    "epochs": 2, "batch_size": 20, "device": "cpu", "seeds": 1, "model": "wrn-10-1",
    "against": "none",
}  # fmt: skip
SHAPE = (3, 8, 8)
RELATIVE = 2.0**-8
"""Half of the distance between neighbouring numbers in bfloat16, which has 8 bits of
fraction with the hidden one.
"""


class Recording(nn.Module):
    """Its layer notes the precision and the order in memory of its passes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 3)
        self.seen = list[tuple[torch.dtype, bool]]()

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        self.seen.append((y.dtype, x.is_contiguous(memory_format=torch.channels_last)))
        return cast(Tensor, y)


def images() -> Tensor:
    return torch.rand(6, *SHAPE, generator=torch.Generator().manual_seed(0))


def test_layers_compute_in_bfloat16_and_everything_else_in_single_precision() -> None:
    network = Recording()
    enable_amp(network)
    assert amp_forward(network, images()).dtype == torch.float32
    network(images())
    assert [dtype for dtype, _ in network.seen] == [torch.bfloat16, torch.float32]
    assert network.seen[0][1]
    assert network.layer.weight.dtype == torch.float32
    with pytest.raises(SettingsError):
        amp_forward(nn.Linear(3, 2), torch.ones(1, 5))
    assert not torch.is_autocast_enabled("cpu")


def test_outputs_gradients_and_statistics_equal_single_precision_to_8_bits() -> None:
    exact = build_model("wrn-10-1", 10, 0, 8)
    near = copy.deepcopy(exact)
    enable_amp(near)
    for name, tensor in exact.state_dict().items():
        assert torch.equal(near.state_dict()[name], tensor), name
    labels = torch.arange(6)
    losses = [
        F.cross_entropy(logits, labels)
        for logits in (exact(images()), amp_forward(near, images()))
    ]
    for loss in losses:
        loss.backward()
    assert losses[1] != losses[0]
    assert losses[1].item() == pytest.approx(losses[0].item(), rel=8 * RELATIVE)
    for (name, parameter), other in zip(
        exact.named_parameters(), near.parameters(), strict=True
    ):
        assert parameter.grad is not None
        assert other.grad is not None
        assert other.grad.dtype == torch.float32
        assert (
            F.cosine_similarity(parameter.grad.flatten(), other.grad.flatten(), dim=0)
            > 0.95
        ), name
    for name, statistics in exact.named_buffers():
        torch.testing.assert_close(
            near.get_buffer(name), statistics, rtol=8 * RELATIVE, atol=1e-3
        )


@pytest.mark.slow
def test_search_and_evaluation_are_fast_if_asked_for_and_resume_to_the_same_numbers(
    tmp_path: Path,
) -> None:
    result = hba.search(
        small_data(), fast=True, out=tmp_path / "whole", **SMALL_SETTINGS
    )
    assert result.schedule is not None
    assert result.schedule.provenance["settings"]["fast"] is True
    hba.search(
        small_data(),
        out=tmp_path / "parts",
        callback=StopAfter(4),
        fast=True,
        **SMALL_SETTINGS,
    )
    resumed = hba.search(small_data(), out=tmp_path / "parts", resume=True)
    assert resumed.schedule is not None
    assert (resumed.schedule.values == result.schedule.values).all()
    for name, weight in result.network.state_dict().items():
        assert torch.equal(resumed.network.state_dict()[name], weight), name
    invert = one_operation("Invert", [[0.0], [1.0]])
    losses = [
        hba.evaluate(invert, tiny_data(), fast=value, **SETTINGS).rows[0].test_loss
        for value in (True, False)
    ]
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.2)


class Views(nn.Module):
    """Its order in memory is that of single precision."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.linear = nn.Linear(4 * 36, 2)

    def forward(self, x: Tensor) -> Any:
        return self.linear(self.conv(x).relu().view(len(x), -1))


def test_what_it_does_not_go_with_is_refused_in_one_line() -> None:
    settings: dict[str, Any] = {
        name: value for name, value in SMALL_SETTINGS.items() if name != "model"
    }
    with pytest.raises(SettingsError, match="fast") as refused:
        hba.search(small_data(), network=Views(), fast=True, **settings)
    assert "\n" not in str(refused.value)
    with pytest.raises(SettingsError, match="hba"):
        hba.search(small_data(), fast=True, **{**SMALL_SETTINGS, "algorithm": "hba"})
    # Weights of five axes have no channels that could be last.
    enable_amp(nn.Conv3d(1, 2, 3))


@pytest.mark.gpu
def test_on_a_gpu_layers_compute_in_bfloat16_and_a_search_ends() -> None:
    network = Recording().cuda()
    assert amp_forward(network, images().cuda()).dtype == torch.float32
    assert network.seen == [(torch.bfloat16, True)]
    assert hba.search(
        small_data(), fast=True, **{**SMALL_SETTINGS, "device": "cuda"}
    ).finished
