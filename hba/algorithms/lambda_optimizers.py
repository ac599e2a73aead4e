"""What moves lambda along a gradient: an optimizer, directions that hyperparameters share, and a proximal pull back.

The optimizer is Adam, as in STN (MacKay et al. 2019) and HBA, or RMSprop, as in Delta-STN (Bae and Grosse 2020).

Shared directions. How strong a policy is matters more than which operations it has, but dozens of noisy coordinates
move its strength slowly, because each learns only from the few images that its slot fired for. A shared coordinate
learns from all of them: its gradient is the sum of the gradients of its columns. lambda is the sum of its own moves and
those of the shared coordinates, so nothing else in a search needs to know about them.

Pull. Adam would average a pull to the start of the search over its own horizon, and lambda would oscillate around the
point of rest. So the pull is not part of the gradient: it is a proximal step after each step of the optimizer,
decoupled from the momentum as weight decay is in AdamW (Loshchilov and Hutter 2019).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import torch
from torch import Tensor
from torch.optim import Adam, Optimizer, RMSprop

from hba.operations import Operation
from hba.policy.space import SearchSpace
from hba.policy.spaces import strong_end
from hba.training.optim import gradient_root
from hba.utils.devices import device_constant

Kind = Literal["adam", "rmsprop"]
ADAM: Kind = "adam"
RMSPROP: Kind = "rmsprop"
RMSPROP_DECAY = 0.99
"""Decay rate of the mean squared gradient, PyTorch's default."""

LAMBDA_OPTIMIZERS: Mapping[str, Callable[[Sequence[Tensor], float, tuple[float, float]], Optimizer]] = MappingProxyType(
    {
        ADAM: lambda parameters, learning_rate, betas: Adam(parameters, lr=learning_rate, betas=betas),
        RMSPROP: lambda parameters, learning_rate, betas: RMSprop(parameters, lr=learning_rate, alpha=RMSPROP_DECAY),
    }
)
"""By name, a function of leaves, learning rate and Adam's decay rates. RMSprop, without momentum, ignores them."""

SHARED = ("geometric probabilities", "colour probabilities", "geometric magnitudes", "colour magnitudes")
"""Geometric are operations that uncover pixels, Cutout included; colour are all others."""
OF_OPERATION = 0.5
"""By how much a step on an operation's shared coordinate moves the probabilities of its copies."""
LARGEST_LOG_SPREAD = 1.5
"""Limit of |log_spread|: noise below a fifth of its standard deviation teaches nothing, above four times covers all."""


def largest_stride(own: float, shared: float) -> float:
    """Approximate largest move of a hyperparameter in one step, given its own and the shared learning rate."""
    return own + (1 + OF_OPERATION) * shared


def optimizer_rates(optimizer: Optimizer, parameter: Tensor) -> Tensor:
    """How far Adam or RMSprop moves each number of a parameter (n,) now for a mean gradient of 1.

    The optimizer must have made a step.
    """
    rates: Tensor = optimizer.param_groups[0]["lr"] / gradient_root(optimizer, parameter)
    return rates


def proximal_step(lam: Tensor, start: Tensor, curvature: Tensor, rates: Tensor) -> Tensor:
    """lambda (n,) after one step down half of curvature (n,) times its squared distance from start (n,).

    rates (n, n), positive semi-definite: a gradient g would move lambda by -rates g. The step is implicit, by the
    gradient at its end, so it does not overshoot whatever the curvature.
    """
    towards_start = torch.eye(len(lam), dtype=lam.dtype, device=lam.device) + rates * curvature
    # Unlike solve, solve_ex does not synchronize with a GPU; the end of the epoch checks that all is finite.
    return start + torch.linalg.solve_ex(towards_start, lam - start)[0]


@dataclass
class SharedDirections:
    """Coordinates that move many hyperparameters together.

    offsets (m,): how far each has moved, in logits. log_spread (): logarithm of the factor of the noise on lambda. Both
    are leaves of the optimizer.
    """

    offsets: Tensor
    log_spread: Tensor
    optimizer: Optimizer

    @staticmethod
    def of(
        space: SearchSpace, learning_rate: float, betas: tuple[float, float], device: torch.device, kind: str = ADAM
    ) -> "SharedDirections":
        """The state at the beginning of a search. kind: a key of LAMBDA_OPTIMIZERS."""
        offsets = torch.zeros(len(directions(space)), device=device, requires_grad=True)
        log_spread = torch.zeros((), device=device, requires_grad=True)
        return SharedDirections(
            offsets, log_spread, LAMBDA_OPTIMIZERS[kind]([offsets, log_spread], learning_rate, betas)
        )

    @torch.no_grad()
    def moved(self, space: SearchSpace, gradient: Tensor, of_spread: Tensor | None = None) -> Tensor:
        """Make one step by the gradient (n,) of lambda, and return what it adds to lambda (n,).

        of_spread (): gradient of log_spread, which stays unchanged without one.
        """
        towards = _directions(space, gradient.device, gradient.dtype)
        before = self.offsets.detach().clone()
        self.offsets.grad, self.log_spread.grad = towards @ gradient, of_spread
        self.optimizer.step()
        self.log_spread.clamp_(-LARGEST_LOG_SPREAD, LARGEST_LOG_SPREAD)
        return (self.offsets - before) @ towards

    def rates(self, space: SearchSpace) -> Tensor:
        """(n, n): the shared coordinates move lambda by -rates g for a mean gradient g (n,)."""
        towards = _directions(space, self.offsets.device, self.offsets.dtype)
        return towards.T * optimizer_rates(self.optimizer, self.offsets) @ towards


def directions(space: SearchSpace) -> Tensor:
    """One row (n,) for each shared coordinate: the 4 of SHARED, one for the probabilities of each operation, and, if K
    is searched, one for each number of K, which shares with nothing.

    A magnitude's sign points away from the value at which its operation does nothing (see strong_end), 0 if unknown.
    """
    return _directions(space, torch.device("cpu"), torch.get_default_dtype())


@device_constant
def _directions(space: SearchSpace, device: torch.device, dtype: torch.dtype) -> Tensor:
    n_counts = space.max_count if space.searches_count else 0
    n_operations = len(space.operations)
    rows = torch.zeros(len(SHARED) + n_operations + n_counts, space.n)
    for number, slot in enumerate(space.slots):
        is_colour = not slot.operation.uses_fill
        rows[int(is_colour), slot.probability] = 1
        rows[len(SHARED) + number // space.copies, slot.probability] = OF_OPERATION
        if slot.magnitude is not None:
            rows[2 + is_colour, slot.magnitude] = _away(slot.operation, number % space.copies)
    if n_counts:
        rows[-n_counts:, space.count_columns] = torch.eye(n_counts)
    return rows.to(device, dtype)


def _away(operation: Operation, copy: int) -> int:
    """1 if a growing logit takes the magnitude away from doing nothing, -1 if towards it, 0 if unknown."""
    assert operation.magnitude_range is not None
    end, (low, high) = strong_end(operation, copy), operation.magnitude_range
    return 0 if end is None or low == high else 1 if end == high else -1
