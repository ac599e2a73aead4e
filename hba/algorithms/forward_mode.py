"""Forward-mode derivatives of any network, as far as PyTorch has them."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from hba.errors import SettingsError


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
