"""Rewards of augmented images: the derivative of each image's loss along a direction of
the weights.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call, jvp
from torch.nn.attention import SDPBackend, sdpa_kernel

from hba.algorithms.scores import AugmentedBatch
from hba.errors import SettingsError
from hba.tasks import task_of
from hba.utils.files import reason_of

RewardDerivative = Literal["auto", "exact", "difference"]
Weights = Mapping[str, Tensor]
Losses = Callable[[Weights, Tensor, Tensor], Tensor]
"""Maps weights by name, images (B, C, H, W) and labels (B,) to the loss of each image
(B,).
"""
Parts = Iterable[tuple[Tensor, Tensor]]
"""Images and labels of each part of a batch."""

DISTANCE = 0.001
"""Euclidean length of the step in each direction: a tenth of DARTS' (Liu, Simonyan and
Yang 2019, equation 8), which is closer to the derivatives, while rounding does not
matter yet.
"""


def gradients_of(loss: Tensor, tensors: Iterable[Tensor]) -> list[Tensor]:
    """Gradients of a loss; zeros for unrelated tensors."""
    return [
        *torch.autograd.grad(
            loss, [*tensors], allow_unused=True, materialize_grads=True
        )
    ]


def rewards_of(
    network: nn.Module,
    batch: AugmentedBatch,
    direction: Weights,
    *other_inputs: Tensor,
    derivative: str = "exact",
) -> Tensor:
    """Rewards r (B,): the derivative of each image's loss along a direction.

    They have no graph. In eval mode, a reward depends on other images only if a
    BatchNorm has no running statistics.

    Args:
        network: The network.
        batch: The augmented images.
        direction: Direction by the names of the trained parameters.
        other_inputs: Arguments of the network after the images.
        derivative: A RewardDerivative.
    """
    weights = {name: network.get_parameter(name).detach() for name in direction}

    def losses(weights: Weights, images: Tensor, labels: Tensor) -> Tensor:
        outputs = functional_call(network, dict(weights), (images, *other_inputs))
        return task_of(labels).losses(outputs, labels)

    on_cpu = batch.images.device.type == "cpu"
    if derivative == "auto":
        # A GPU may round weights to ten bits in convolutions, which hides a small
        # difference. Forward mode runs frozen layers once, a difference runs them
        # twice.
        has_frozen = any(
            not parameter.requires_grad for parameter in network.parameters()
        )
        derivative = "difference" if on_cpu and not has_frozen else "exact"
    n_parts = n_parts_of(batch)
    parts = zip(batch.images.chunk(n_parts), batch.labels.chunk(n_parts), strict=True)
    derivatives = exact_derivatives if derivative == "exact" else central_differences
    return derivatives(losses, weights, direction, parts)


def n_parts_of(batch: AugmentedBatch) -> int:
    """One draw of the batch fits a CPU's cache; a GPU is faster with all at once."""
    return batch.draws if batch.images.device.type == "cpu" else 1


def advantages_of(rewards: Tensor, draws: int) -> Tensor:
    """Rewards (B,) minus the mean reward of the image's other draws; with one draw,
    minus the mean of the batch.
    """
    if draws == 1:
        return rewards - rewards.mean()
    by_draw = rewards.view(draws, -1)
    return ((by_draw - by_draw.mean(dim=0)) * (draws / (draws - 1))).flatten()


def exact_derivatives(
    losses: Losses, weights: Weights, direction: Weights, parts: Parts
) -> Tensor:
    """Derivatives (B,) from one pass in forward mode.

    Raises:
        SettingsError: If a layer does not support it.
    """
    at = dict(weights)
    along = dict(direction)

    def derivatives_of(images: Tensor, labels: Tensor) -> Tensor:
        return jvp(lambda moved: losses(moved, images, labels), (at,), (along,))[1]

    with (
        torch.no_grad(),
        differentiable_attention(),
        forward_mode("an exact reward", "reward_derivative difference"),
    ):
        return torch.cat([derivatives_of(images, labels) for images, labels in parts])


def central_differences(
    losses: Losses, weights: Weights, direction: Weights, parts: Parts
) -> Tensor:
    """Derivatives (B,) from two passes; zero along a direction of zeros."""
    length = torch.stack(torch._foreach_norm(list(direction.values()))).norm()
    # Keeps the step finite for a direction of zeros.
    step = DISTANCE / length.clamp(min=torch.finfo(length.dtype).tiny ** 0.5)
    parts = list(parts)

    def losses_at(distance: Tensor) -> Tensor:
        # One copy of the weights at a time.
        moved = {
            name: weight + distance * direction[name]
            for name, weight in weights.items()
        }
        return torch.cat([losses(moved, images, labels) for images, labels in parts])

    with torch.no_grad():
        return (losses_at(step) - losses_at(-step)) / (2 * step)


@contextmanager
def forward_mode(computation: str, alternative: str) -> Iterator[None]:
    """Context of a forward-mode pass.

    Args:
        computation: What needs the pass.
        alternative: What to choose instead.

    Raises:
        SettingsError: If a layer does not support it.
    """
    with warnings.catch_warnings(), supported(computation, alternative):
        # PyTorch warns about its own formulas when they are first used.
        warnings.filterwarnings("ignore", r"`torch\.jit\.script")
        yield


@contextmanager
def supported(computation: str, alternative: str) -> Iterator[None]:
    """Context of a pass that some layers do not support.

    Args:
        computation: What needs the pass.
        alternative: What to choose instead.

    Raises:
        SettingsError: If PyTorch fails in the pass.
    """
    try:
        yield
    except (RuntimeError, ValueError) as error:
        if isinstance(error, torch.OutOfMemoryError | SettingsError):
            raise
        problem = f"{computation} does not work with this network ({reason_of(error)})"
        raise SettingsError(
            f"{problem}; choose {alternative} or another network"
        ) from None


@contextmanager
def differentiable_attention() -> Iterator[None]:
    """Use the attention kernel with forward mode; PyTorch's fast kernels have none."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
