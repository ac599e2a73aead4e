"""By how much the loss of each image changes along a direction of the weights: exactly, or by a difference."""

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
"""Of weights by name, images (B, C, H, W) and labels (B,), the loss of each image (B,)."""
Parts = Iterable[tuple[Tensor, Tensor]]
"""Images and labels, a part of a batch each."""

DISTANCE = 0.001
"""Of the weights to either side, in Euclidean length. DARTS takes 0.01 (Liu, Simonyan and Yang 2019, equation 8); a
tenth of that is nearer to the derivatives, and rounding does not show yet, as the tests say.
"""


def image_derivatives(
    losses: Losses, weights: Weights, direction: Weights, parts: Parts, derivative: RewardDerivative, is_frozen: bool
) -> Tensor:
    """Of all images (B,), along a direction that has all the weights.

    is_frozen: whether the network has others, which stay as they are.
    """
    if derivative == "auto":
        # Convolutions on a GPU may round weights to ten bits, which a small difference is lost in. Forward mode goes
        # through what is frozen as one plain pass, and a difference as two.
        on_cpu = all(one.device.type == "cpu" for one in weights.values())
        derivative = "difference" if on_cpu and not is_frozen else "exact"
    along = exact_derivatives if derivative == "exact" else central_differences
    return along(losses, weights, direction, parts)


def exact_derivatives(losses: Losses, weights: Weights, direction: Weights, parts: Parts) -> Tensor:
    """Of all images (B,), by a pass in forward mode. Raises SettingsError for a network with a layer that has none."""

    def of_part(images: Tensor, labels: Tensor) -> Tensor:
        found: Tensor = jvp(lambda moved: losses(moved, images, labels), (dict(weights),), (dict(direction),))[1]
        return found

    with torch.no_grad(), differentiable_attention(), forward_mode("an exact reward", "reward_derivative difference"):
        return torch.cat([of_part(*part) for part in parts])


def central_differences(losses: Losses, weights: Weights, direction: Weights, parts: Parts) -> Tensor:
    """Of all images (B,), by two passes; zero along a direction of nothing but zeros."""
    length = torch.stack(torch._foreach_norm(list(direction.values()))).norm()
    # Of a direction without a length any multiple is zero; this one is finite.
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
    """Around a forward pass with derivatives. Raises SettingsError for a layer that has none: `what` needs it."""
    try:
        with warnings.catch_warnings():
            # PyTorch warns of how it compiles its own formulas when they are first used.
            warnings.filterwarnings("ignore", r"`torch\.jit\.script", FutureWarning)
            warnings.filterwarnings("ignore", r"`torch\.jit\.script", DeprecationWarning)
            yield
    except (NotImplementedError, RuntimeError) as error:
        # What PyTorch cannot even try says so as a RuntimeError: a function of one's own, a way over NumPy.
        is_untried = any(words in str(error) for words in ("autograd.Function", "doesn't have storage"))
        if not isinstance(error, NotImplementedError) and not is_untried:
            raise
        raise SettingsError(
            f"{what} needs the forward-mode derivative of every layer, and PyTorch has none for one of this network "
            f"({str(error).splitlines()[0]}); choose {instead} or another network"
        ) from None


@contextmanager
def differentiable_attention() -> Iterator[None]:
    """PyTorch's fast kernels of attention have no forward mode; this one has, but no backward pass through it."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
