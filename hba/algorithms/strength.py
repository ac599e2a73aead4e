"""Strength first: directions in which many hyperparameters move together.

How strong a policy is matters more than which operations it has. Dozens of noisy coordinates move it slowly, because
each learns from the few images that its slot fired for. A shared coordinate learns from all of them: its gradient is
the sum of those of its columns. So do the copies of an operation, which learn each from its own draws only. lambda is
the sum of all, so nothing else of a search knows of them.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim import Optimizer

from hba.algorithms.lambda_optimizers import ADAM, LAMBDA_OPTIMIZERS
from hba.algorithms.proximal import own_rates
from hba.operations import Operation
from hba.policy.space import SearchSpace
from hba.policy.starts import strong_end
from hba.utils.device_constants import device_constant

SHARED = ("geometric probabilities", "colour probabilities", "geometric magnitudes", "colour magnitudes")
"""Geometric is what uncovers pixels, Cutout too; colour is all else."""
OF_OPERATION = 0.5
"""By how much a step on an operation's shared coordinate moves the probabilities of its copies."""
LARGEST_LOG_SPREAD = 1.5
"""Up or down: noise below a fifth of its standard deviation teaches nothing, noise above four times covers all."""


def largest_stride(own: float, shared: float) -> float:
    """About the most by which a step moves a hyperparameter: by itself, and by the coordinates that it shares in."""
    return own + (1 + OF_OPERATION) * shared


@dataclass
class Strength:
    """offsets (m,): how far the shared coordinates have moved, in logits. log_spread (): of the noise on lambda, as the
    logarithm of what it is multiplied by. Both are leaves of the optimizer.
    """

    offsets: Tensor
    log_spread: Tensor
    optimizer: Optimizer

    @staticmethod
    def of(
        space: SearchSpace, learning_rate: float, betas: tuple[float, float], device: torch.device, kind: str = ADAM
    ) -> "Strength":
        """At the beginning of a search. kind: a key of LAMBDA_OPTIMIZERS."""
        offsets = torch.zeros(len(directions(space)), device=device, requires_grad=True)
        log_spread = torch.zeros((), device=device, requires_grad=True)
        return Strength(offsets, log_spread, LAMBDA_OPTIMIZERS[kind]([offsets, log_spread], learning_rate, betas))

    @torch.no_grad()
    def moved(self, space: SearchSpace, gradient: Tensor, of_spread: Tensor | None = None) -> Tensor:
        """One step on the shared coordinates by the gradient (n,) of lambda; what it adds to lambda (n,).

        of_spread (): gradient of log_spread, which stays where it is without.
        """
        towards = _directions(space, gradient.device, gradient.dtype)
        before = self.offsets.detach().clone()
        self.offsets.grad, self.log_spread.grad = towards @ gradient, of_spread
        self.optimizer.step()
        self.log_spread.clamp_(-LARGEST_LOG_SPREAD, LARGEST_LOG_SPREAD)
        return (self.offsets - before) @ towards

    def rates(self, space: SearchSpace) -> Tensor:
        """(n, n): -rates g is how far the shared coordinates carry lambda for a mean gradient g (n,)."""
        towards = _directions(space, self.offsets.device, self.offsets.dtype)
        return towards.T * own_rates(self.optimizer, self.offsets) @ towards


def directions(space: SearchSpace) -> Tensor:
    """One row (n,) for each shared coordinate: 4 of SHARED, one for each operation's probabilities, and one for each
    number of K where it is searched, which shares with nothing.

    A magnitude's sign is away from what its operation does nothing at (see strong_end), 0 where nobody knows that.
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
    """1 where a growing logit takes the magnitude away from doing nothing, -1 the other way, 0 where nobody knows."""
    assert operation.magnitude_range is not None
    end, (low, high) = strong_end(operation, copy), operation.magnitude_range
    return 0 if end is None or low == high else 1 if end == high else -1
