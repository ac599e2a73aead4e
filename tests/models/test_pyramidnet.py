"""PyramidNet: widths, the shortcut without weights, and ShakeDrop's factors for each
image.
"""

import pytest
import torch
from random_inputs import seeded
from torch import Tensor

from hba.models import build_model, find_model
from hba.models.pyramidnet import ShakeDrop

IMAGES = 4000


def probabilities(name: str) -> list[float]:
    with torch.device("meta"):
        return [
            layer.p
            for layer in find_model(name)(10).modules()
            if isinstance(layer, ShakeDrop)
        ]


def factors(p: float) -> tuple[Tensor, Tensor]:
    """Forward and backward factor of IMAGES images."""
    x = torch.ones(IMAGES, 1, 1, 1, requires_grad=True)
    y = ShakeDrop(p).train()(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    return y.detach().flatten(), gradient.flatten()


def test_the_probability_of_surviving_falls_linearly_to_one_half() -> None:
    assert probabilities("pyramidnet-20-12") == pytest.approx(
        [1 - 0.5 * block / 6 for block in range(1, 7)]
    )
    largest = probabilities("pyramidnet-272-200")
    assert (len(largest), largest[-1]) == (90, 0.5)
    assert largest[0] == pytest.approx(1 - 1 / 180)


@pytest.mark.parametrize("p", [0.5, 0.75, 1 - 1 / 180])
def test_at_test_the_factor_is_the_probability_and_the_mean_of_many_draws(
    p: float,
) -> None:
    torch.manual_seed(0)
    x = torch.ones(1, 1, 1, 1, requires_grad=True)
    before = torch.get_rng_state()
    y = ShakeDrop(p).eval()(x)
    assert torch.equal(torch.get_rng_state(), before)
    assert float(y.detach()) == pytest.approx(p, abs=1e-7)
    assert float(torch.autograd.grad(y, x)[0]) == pytest.approx(p, abs=1e-7)
    forward, _ = factors(p)
    assert abs(float(forward.mean()) - p) < 5 * float(forward.std()) / IMAGES**0.5


FEW = 6


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed))


class WatchedBlock:
    """A block that changes the shape, and what its branches and its shortcut gave in
    the last pass.
    """

    def __init__(self) -> None:
        self.block = (
            build_model("shake-shake-26-2x4d", 3, seed=0)
            .get_submodule("blocks.4")
            .train()
        )
        self.seen: dict[str, Tensor] = {}
        for name in ("branch1", "branch2", "shortcut"):
            self.block.get_submodule(name).register_forward_hook(
                lambda _module, _inputs, output, name=name: self.seen.update(
                    {name: output}
                )
            )

    def residual(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What the block adds to its shortcut, and the outputs of its branches."""
        y = self.block(x)
        return y - self.seen["shortcut"], self.seen["branch1"], self.seen["branch2"]


def proportion(mixed: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """alpha (B,) of alpha a + (1 - alpha) b, by least squares for each image."""
    return ((mixed - b) * (a - b)).flatten(1).sum(1) / (a - b).square().flatten(1).sum(
        1
    )


def test_branches_and_gradients_are_added_in_proportions_of_each_image() -> None:
    torch.manual_seed(0)
    residual, a, b = WatchedBlock().residual(randn(FEW, 4, 8, 8))
    incoming = randn(*residual.shape, seed=1)
    to_a, to_b = torch.autograd.grad(residual, (a, b), incoming)
    alpha = proportion(residual, a, b).detach()
    beta = (to_a * incoming).flatten(1).sum(1) / incoming.square().flatten(1).sum(1)
    for factors in (alpha, beta):
        assert bool(((factors > 0) & (factors < 1)).all())
        assert len({round(float(value), 4) for value in factors}) == FEW
    assert float((beta - alpha).abs().min()) > 1e-3
    alpha, beta = (factors[:, None, None, None] for factors in (alpha, beta))
    torch.testing.assert_close(residual, alpha * a + (1 - alpha) * b)
    torch.testing.assert_close(to_a, beta * incoming)
    torch.testing.assert_close(to_b, (1 - beta) * incoming)


def test_at_test_each_branch_counts_one_half_and_nothing_is_drawn() -> None:
    watched = WatchedBlock()
    watched.block.eval()
    before = torch.get_rng_state()
    residual, a, b = watched.residual(randn(FEW, 4, 8, 8))
    assert torch.equal(torch.get_rng_state(), before)
    torch.testing.assert_close(residual, (a + b) / 2)
    incoming = randn(*residual.shape, seed=1)
    for gradient in torch.autograd.grad(residual, (a, b), incoming):
        torch.testing.assert_close(gradient, incoming / 2)
