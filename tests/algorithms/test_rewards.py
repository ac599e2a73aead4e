"""How much losses change along a direction of the weights: differences beside a closed
form and beside forward mode.
"""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from random_inputs import seeded
from search_problems import SMALL_SETTINGS, small_data
from torch import Tensor, nn
from torch.func import functional_call

import hba
from hba.algorithms import Lookahead
from hba.algorithms.rewards import (
    central_differences,
    exact_derivatives,
)
from hba.errors import SettingsError
from hba.models import build_model


def parts_of(
    images: Tensor, labels: Tensor, n_parts: int = 2
) -> list[tuple[Tensor, Tensor]]:
    return list(zip(images.chunk(n_parts), labels.chunk(n_parts), strict=True))


def squares(weights: Mapping[str, Tensor], images: Tensor, labels: Tensor) -> Tensor:
    """The square of a linear function of the weights, whose central difference is its
    derivative at any distance.
    """
    return (images.flatten(1) @ weights["weight"] - labels) ** 2


def test_the_difference_of_a_quadratic_loss_is_its_derivative() -> None:
    generator = seeded(0)
    images = torch.randn(6, 1, 2, 2, generator=generator, dtype=torch.float64)
    labels = torch.randn(6, generator=generator, dtype=torch.float64)
    weight, along = (
        torch.randn(4, generator=generator, dtype=torch.float64) for _ in range(2)
    )
    differences = central_differences(
        squares, {"weight": weight}, {"weight": 50 * along}, parts_of(images, labels)
    )
    flat = images.flatten(1)
    torch.testing.assert_close(
        differences,
        2 * (flat @ weight - labels) * (flat @ (50 * along)),
        rtol=1e-9,
        atol=1e-9,
    )


def network_rewards(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The exact derivatives and the differences of a network's losses along a gradient
    of theirs.
    """
    network = build_model("wrn-10-1", 10, seed=0).to(dtype).eval()
    generator = seeded(1)
    images = torch.randn(48, 3, 8, 8, generator=generator).to(dtype)
    labels = torch.randint(10, (48,), generator=generator)
    names = [name for name, _ in network.named_parameters()]
    loss = F.cross_entropy(network(images[:16]), labels[:16])
    direction = dict(
        zip(names, torch.autograd.grad(loss, list(network.parameters())), strict=True)
    )
    weights = {
        name: parameter.detach() for name, parameter in network.named_parameters()
    }

    def losses(weights: Mapping[str, Tensor], images: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(
            functional_call(network, dict(weights), (images,)), labels, reduction="none"
        )

    parts = parts_of(images[16:], labels[16:])
    return tuple(
        derivative(losses, weights, direction, parts)
        for derivative in (exact_derivatives, central_differences)
    )  # type: ignore[return-value]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_differences_tell_images_apart_as_the_derivatives_do(
    dtype: torch.dtype,
) -> None:
    exact, differences = network_rewards(dtype)
    assert torch.corrcoef(torch.stack([exact, differences]))[0, 1] > 0.9999
    assert not torch.equal(exact, differences)


class Undifferentiable(torch.autograd.Function):
    """PyTorch has a backward pass of it, and no forward mode."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        return gradient


class WithoutForwardMode(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3 * 64, 2)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = Undifferentiable.apply(self.linear(x.flatten(1)))
        return output


def test_a_layer_without_forward_mode_is_searched_by_differences_or_refused() -> None:
    settings: Any = {
        name: value
        for name, value in SMALL_SETTINGS.items()
        if name not in ("model", "train_steps", "algorithm")
    }
    result = hba.search(
        small_data(),
        network=WithoutForwardMode(),
        algorithm=Lookahead(reward_derivative="auto", train_steps=2),
        **settings,
    )
    assert result.schedule is not None
    assert (result.schedule.values[0] != result.schedule.values[-1]).any()
    with pytest.raises(
        SettingsError, match=r"choose reward_derivative difference or another network$"
    ):
        hba.search(
            small_data(),
            network=WithoutForwardMode(),
            algorithm=Lookahead(reward_derivative="exact", train_steps=2),
            **settings,
        )
