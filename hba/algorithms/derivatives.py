"""The derivative of each image's loss along a direction of the weights, by forward mode or by a difference."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor
from torch.func import jvp
from torch.nn.attention import SDPBackend, sdpa_kernel

from hba.errors import SettingsError

RewardDerivative = Literal["auto", "exact", "difference"]
Weights = Mapping[str, Tensor]
Losses = Callable[[Weights, Tensor, Tensor], Tensor]
"""From weights by name, images (B, C, H, W) and labels (B,) to the loss of each image (B,)."""
Parts = Iterable[tuple[Tensor, Tensor]]
"""Images and labels, in parts of a batch."""

DISTANCE = 0.001
"""Euclidean length of the step to either side. DARTS takes 0.01 (Liu, Simonyan and Yang 2019, equation 8); a tenth of
that is closer to the derivatives, and rounding does not matter yet.
"""


def image_derivatives(
    losses: Losses, weights: Weights, direction: Weights, parts: Parts, derivative: RewardDerivative, is_frozen: bool
) -> Tensor:
    """Derivatives of all images (B,) along a direction with an entry for each weight.

    is_frozen: whether the network has other weights, which are frozen.
    """
    if derivative == "auto":
        # A GPU may round weights to ten bits in convolutions, which hides a small difference. Forward mode passes
        # frozen layers once, a difference twice.
        on_cpu = all(one.device.type == "cpu" for one in weights.values())
        derivative = "difference" if on_cpu and not is_frozen else "exact"
    along = exact_derivatives if derivative == "exact" else central_differences
    return along(losses, weights, direction, parts)


def exact_derivatives(losses: Losses, weights: Weights, direction: Weights, parts: Parts) -> Tensor:
    """By one pass in forward mode (B,). Raises SettingsError if a layer has no forward-mode derivative."""

    def of_part(images: Tensor, labels: Tensor) -> Tensor:
        found: Tensor = jvp(lambda moved: losses(moved, images, labels), (dict(weights),), (dict(direction),))[1]
        return found

    with torch.no_grad(), differentiable_attention(), forward_mode("an exact reward", "reward_derivative difference"):
        return torch.cat([of_part(*part) for part in parts])


def central_differences(losses: Losses, weights: Weights, direction: Weights, parts: Parts) -> Tensor:
    """By two passes (B,); zero along a direction of zeros."""
    length = torch.stack(torch._foreach_norm(list(direction.values()))).norm()
    # Keeps the step finite for a direction of zeros.
    step = DISTANCE / length.clamp(min=torch.finfo(length.dtype).tiny ** 0.5)
    parts = list(parts)

    def losses_at(distance: Tensor) -> Tensor:
        # One copy of the weights at a time.
        moved = {name: one + distance * direction[name] for name, one in weights.items()}
        return torch.cat([losses(moved, *part) for part in parts])

    with torch.no_grad():
        return (losses_at(step) - losses_at(-step)) / (2 * step)


@contextmanager
def forward_mode(what: str, instead: str) -> Iterator[None]:
    """Context of a forward-mode pass that `what` needs. Raises SettingsError for a layer without such a derivative."""
    try:
        with warnings.catch_warnings():
            # PyTorch warns about its own formulas when they are first used.
            warnings.filterwarnings("ignore", r"`torch\.jit\.script", FutureWarning)
            warnings.filterwarnings("ignore", r"`torch\.jit\.script", DeprecationWarning)
            yield
    except (NotImplementedError, RuntimeError) as error:
        # A custom autograd function, or code that uses NumPy, raises a RuntimeError.
        is_untried = any(words in str(error) for words in ("autograd.Function", "doesn't have storage"))
        if not isinstance(error, NotImplementedError) and not is_untried:
            raise
        raise SettingsError(
            f"{what} needs the forward-mode derivative of every layer, and PyTorch has none for one of this network "
            f"({str(error).splitlines()[0]}); choose {instead} or another network"
        ) from None


@contextmanager
def differentiable_attention() -> Iterator[None]:
    """Use the attention kernel that has a forward mode; PyTorch's fast kernels have none."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
