"""Shake-Shake: proportions drawn for each image, others for the gradient, and one half each at test."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from hba.models import build_model

IMAGES = 6


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class WatchedBlock:
    """A block that changes the shape, and what its branches and its shortcut gave in the last pass."""

    def __init__(self, frozen_statistics: bool = False) -> None:
        self.block = build_model("shake-shake-26-2x4d", 3, seed=0).get_submodule("blocks.4").train()
        if frozen_statistics:
            self.block.eval()
            self.block.training = True
        self.seen: dict[str, Tensor] = {}
        for name in ("branch1", "branch2", "shortcut"):
            self.block.get_submodule(name).register_forward_hook(self._keeper(name))

    def _keeper(self, name: str) -> Callable[[nn.Module, object, Tensor], None]:
        def keep(_module: nn.Module, _inputs: object, output: Tensor) -> None:
            self.seen[name] = output

        return keep

    def residual(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What the block adds to its shortcut, and the outputs of its branches."""
        y = self.block(x)
        return y - self.seen["shortcut"], self.seen["branch1"], self.seen["branch2"]


def proportion(mixed: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """alpha (B,) of alpha a + (1 - alpha) b, by least squares for each image."""
    return ((mixed - b) * (a - b)).flatten(1).sum(1) / (a - b).square().flatten(1).sum(1)


def test_the_branches_are_added_in_proportions_of_each_image() -> None:
    torch.manual_seed(0)
    residual, a, b = WatchedBlock().residual(randn(IMAGES, 4, 8, 8))
    alpha = proportion(residual, a, b).detach()
    assert bool(((alpha > 0) & (alpha < 1)).all())
    assert len({round(float(value), 4) for value in alpha}) == IMAGES
    alpha = alpha[:, None, None, None]
    torch.testing.assert_close(residual, alpha * a + (1 - alpha) * b)


def test_the_gradient_comes_back_in_other_proportions_of_each_image() -> None:
    torch.manual_seed(0)
    residual, a, b = WatchedBlock().residual(randn(IMAGES, 4, 8, 8))
    incoming = randn(*residual.shape, seed=1)
    to_a, to_b = torch.autograd.grad(residual, (a, b), incoming)
    beta = (to_a * incoming).flatten(1).sum(1) / incoming.square().flatten(1).sum(1)
    assert bool(((beta > 0) & (beta < 1)).all())
    assert float((beta - proportion(residual, a, b).detach()).abs().min()) > 1e-3
    beta = beta[:, None, None, None]
    torch.testing.assert_close(to_a, beta * incoming)
    torch.testing.assert_close(to_b, (1 - beta) * incoming)


def test_at_test_each_branch_counts_one_half_and_nothing_is_drawn() -> None:
    watched = WatchedBlock()
    watched.block.eval()
    before = torch.get_rng_state()
    residual, a, b = watched.residual(randn(IMAGES, 4, 8, 8))
    assert torch.equal(torch.get_rng_state(), before)
    torch.testing.assert_close(residual, (a + b) / 2)
    incoming = randn(*residual.shape, seed=1)
    for gradient in torch.autograd.grad(residual, (a, b), incoming):
        torch.testing.assert_close(gradient, incoming / 2)


def test_the_second_path_of_the_shortcut_sees_the_image_a_pixel_further() -> None:
    shortcut = WatchedBlock().block.get_submodule("shortcut").eval()
    with torch.no_grad():
        for name in ("conv1", "conv2"):
            weight = shortcut.get_parameter(f"{name}.weight")
            weight.copy_(torch.eye(4)[:, :, None, None])
    x = torch.arange(1.0, 1 + 4 * 5 * 6).reshape(1, 4, 5, 6)
    expected = torch.zeros(1, 8, 3, 3)
    for row in range(3):
        for column in range(3):
            expected[0, :4, row, column] = x[0, :, 2 * row, 2 * column]
            if row > 0 and column > 0:
                expected[0, 4:, row, column] = x[0, :, 2 * row - 1, 2 * column - 1]
    torch.testing.assert_close(shortcut(x), expected, rtol=1e-4, atol=0)
    torch.testing.assert_close(shortcut(-x), torch.zeros_like(expected))
