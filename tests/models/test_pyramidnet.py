"""PyramidNet: widths, the shortcut without weights, and ShakeDrop's factors for each image."""

from typing import Any

import pytest
import torch
from each import each
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


@each("p", [0.5, 0.75, 1 - 1 / 180])
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


@each(
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


@each("stride", [1, 2])
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
