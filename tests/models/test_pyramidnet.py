"""PyramidNet: widths, the shortcut without weights, and ShakeDrop's factors for each image."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hba.models import build_model, find_model
from hba.models.pyramidnet import ShakeDrop

IMAGES = 4000


def probabilities(name: str) -> list[float]:
    with torch.device("meta"):
        return [layer.p for layer in find_model(name)(10).modules() if isinstance(layer, ShakeDrop)]


def factors(p: float) -> tuple[Tensor, Tensor]:
    """Forward and backward factor of IMAGES images."""
    x = torch.ones(IMAGES, 1, 1, 1, requires_grad=True)
    y = ShakeDrop(p).train()(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    return y.detach().flatten(), gradient.flatten()


def test_the_probability_of_surviving_falls_linearly_to_one_half() -> None:
    assert probabilities("pyramidnet-20-12") == pytest.approx([1 - 0.5 * block / 6 for block in range(1, 7)])
    largest = probabilities("pyramidnet-272-200")
    assert (len(largest), largest[-1]) == (90, 0.5)
    assert largest[0] == pytest.approx(1 - 1 / 180)


@pytest.mark.parametrize("p", probabilities("pyramidnet-20-12"))
def test_the_gate_is_open_as_often_as_its_depth_says(p: float) -> None:
    torch.manual_seed(0)
    forward, backward = factors(p)
    survived = forward == 1
    assert torch.equal(survived, backward == 1)
    assert abs(int(survived.sum()) - IMAGES * p) < 4 * (IMAGES * p * (1 - p)) ** 0.5


def test_the_factors_of_a_closed_gate_are_uniform_and_independent() -> None:
    torch.manual_seed(0)
    forward, backward = factors(0.0)
    # Standard errors: of the means 0.009 and 0.005, of the variances about 0.005 and 0.001.
    assert bool(((forward > -1) & (forward < 1) & (backward > 0) & (backward < 1)).all())
    assert abs(float(forward.mean())) < 0.04
    assert abs(float(forward.var()) - 1 / 3) < 0.02
    assert abs(float(backward.mean()) - 1 / 2) < 0.02
    assert abs(float(backward.var()) - 1 / 12) < 0.005
    assert abs(float(torch.corrcoef(torch.stack([forward, backward]))[0, 1])) < 5 / IMAGES**0.5


def test_an_image_has_one_factor_for_all_of_its_channels_and_pixels() -> None:
    torch.manual_seed(0)
    x = torch.ones(8, 3, 4, 5, requires_grad=True)
    y = ShakeDrop(0.0).train()(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    for factor in (y.detach(), gradient):
        assert torch.equal(factor, factor[:, :1, :1, :1].expand_as(factor))
        assert len(factor[:, 0, 0, 0].unique()) == 8


@pytest.mark.parametrize("p", [0.5, 0.75, 1 - 1 / 180])
def test_at_test_the_factor_is_the_probability_and_the_mean_of_many_draws(p: float) -> None:
    torch.manual_seed(0)
    x = torch.ones(1, 1, 1, 1, requires_grad=True)
    before = torch.get_rng_state()
    y = ShakeDrop(p).eval()(x)
    assert torch.equal(torch.get_rng_state(), before)
    assert float(y.detach()) == pytest.approx(p, abs=1e-7)
    assert float(torch.autograd.grad(y, x)[0]) == pytest.approx(p, abs=1e-7)
    forward, _ = factors(p)
    assert abs(float(forward.mean()) - p) < 5 * float(forward.std()) / IMAGES**0.5


def test_half_precision_keeps_its_type_and_the_rate_of_open_gates() -> None:
    torch.manual_seed(0)
    # The numbers of bfloat16 below 1 lie 1 / 256 apart, too far for this rate.
    p, many = 1 - 0.0015, 100 * IMAGES
    y = ShakeDrop(p).train()(torch.ones(many, 1, 1, 1, dtype=torch.bfloat16))
    assert y.dtype == torch.bfloat16
    closed, expected = int((y != 1).sum()), many * (1 - p)
    assert abs(closed - expected) < 5 * expected**0.5


@pytest.mark.parametrize(
    ("name", "widths"),
    [
        ("pyramidnet-11-6", [18, 20, 22]),
        # 16 + 7 k / 6, rounded down.
        ("pyramidnet-20-7", [17, 18, 19, 20, 21, 23]),
    ],
)
def test_every_block_is_wider_by_the_same_amount(name: str, widths: list[int]) -> None:
    blocks: Any = build_model(name, 3, seed=0).get_submodule("blocks")
    assert [block.residual[1].out_channels for block in blocks] == widths
    assert [block.residual[-1].num_features for block in blocks] == [4 * width for width in widths]


def test_the_largest_network_ends_as_wide_as_published() -> None:
    with torch.device("meta"):
        assert find_model("pyramidnet-272-200")(10).get_submodule("linear").in_features == 864


@pytest.mark.parametrize("stride", [1, 2])
def test_the_shortcut_pools_and_adds_channels_of_zeros(stride: int) -> None:
    network = build_model("pyramidnet-11-6", 3, seed=0).eval()
    block = network.get_submodule("blocks.0" if stride == 1 else "blocks.1")
    block.register_module("residual", Zero(block, stride))
    x = torch.randn(2, 16 if stride == 1 else 72, 6, 6)
    y = block(x)
    shortcut = x if stride == 1 else x.reshape(2, 72, 3, 2, 3, 2).mean(dim=(3, 5))
    torch.testing.assert_close(y[:, : x.shape[1]], shortcut)
    assert y.shape[1] == (72 if stride == 1 else 80)
    assert not bool(y[:, x.shape[1] :].any())


class Zero(nn.Module):
    """Zeros in the shape that the block's residual has."""

    def __init__(self, block: Any, stride: int) -> None:
        super().__init__()
        self.channels, self.stride = block.residual[-1].num_features, stride

    def forward(self, x: Tensor) -> Tensor:
        return x.new_zeros(len(x), self.channels, x.shape[2] // self.stride, x.shape[3] // self.stride)
