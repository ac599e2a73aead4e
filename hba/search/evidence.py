"""What a search knows of itself: does lambda move by signal or by drift?

Some times during a search (setting `probes`, as far as hba/search/cost.py allows), its last moves of lambda are tried
out. From the weights that it has, a copy of the network is trained for a few steps at the lambda of the previous probe,
another at the lambda of now, on the same batches and with the same random numbers. The difference of their validation
losses is the change realized by the moves. Beside it stand the change that the hypergradients promised, and how much
they agreed with each other.
"""

import contextlib
import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hba.data.batches import as_floats
from hba.data.images import Batch, Images
from hba.data.load import SearchData
from hba.optimizer import MOMENTUM
from hba.probes import PROBE_COLUMNS
from hba.search.problem import Problem
from hba.search.state import SearchState
from hba.seeding import derived_seed, generator_for

PROBE_STEPS = 10
"""Training steps of each of the two short trainings of a probe."""
LEAST_LEARNING_RATE = 0.1
"""Of a probe, as a share of the search's first: late in a search, steps are too small to show anything."""
VALIDATION_BATCH_SIZE = 500
SATURATED_LOGIT = 4.0
"""Beyond it, a hyperparameter is within 1.8 % of an end of its range."""
PROBED = PROBE_COLUMNS[1:]
"""What a probe adds to the metrics of its epoch."""


@dataclass
class Moves:
    """Added up over the lambda steps since the last probe, on the device.

    start (n,): lambda then. gradients, squares (n,): sums of the hypergradients, and of their squares; a hypergradient
    is of the validation loss in nats. count (): lambda steps.
    """

    start: Tensor
    gradients: Tensor
    squares: Tensor
    count: Tensor

    @staticmethod
    def since(lam: Tensor) -> "Moves":
        start = lam.detach().clone()
        return Moves(start, torch.zeros_like(start), torch.zeros_like(start), start.new_zeros(()))

    def add(self, gradient: Tensor) -> None:
        self.gradients += gradient
        self.squares += gradient.square()
        self.count += 1

    def predicted_change(self, lam: Tensor) -> Tensor:
        """Of the validation loss, to first order: the mean hypergradient times the whole move of lambda.

        Both come from the same hypergradients, noise and all, so that it promises too much.
        """
        return (self.gradients / self.count) @ (lam.detach() - self.start)

    def signal_to_noise(self) -> Tensor:
        """Of one hypergradient: |its mean|^2 over the sum of its variances, both without bias; may be below zero."""
        mean = self.gradients / self.count
        variance = ((self.squares / self.count - mean.square()) * self.count / (self.count - 1)).sum()
        return (mean.square().sum() - variance / self.count) / variance

    def state_dict(self) -> dict[str, Tensor]:
        return dict(vars(self))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            getattr(self, name).copy_(value)


def is_probe_epoch(epoch: int, epochs: int, probes: int) -> bool:
    """Whether a probe follows epoch, counted from 1: `probes` of them, or one an epoch, evenly spread, the last at the
    end.
    """
    return epoch * probes // epochs > (epoch - 1) * probes // epochs


def probe(problem: Problem, state: SearchState, moves: Moves, data: SearchData, epoch: int) -> dict[str, float | None]:
    """The metrics PROBED. None for what too few lambda steps cannot tell."""
    lam = state.lam.detach()
    known = {
        "predicted_change": moves.predicted_change(lam),
        "signal_to_noise": moves.signal_to_noise(),
        "saturated_percent": 100 * (lam.abs() > SATURATED_LOGIT).float().mean(),
    }
    numbers = dict(zip(known, torch.stack(list(known.values())).tolist(), strict=True))
    n_steps = int(moves.count)
    if n_steps < 1:
        return {**dict.fromkeys(PROBED), "saturated_percent": numbers["saturated_percent"]}
    if n_steps < 2:
        numbers["signal_to_noise"] = None
    before, after = (loss_after_training(problem, state, data, at, epoch) for at in (moves.start, lam))
    return {**numbers, "realized_change": after - before}


def loss_after_training(problem: Problem, state: SearchState, data: SearchData, lam: Tensor, epoch: int) -> float:
    """Validation loss in nats of a copy of the network, trained for PROBE_STEPS at lam (n,).

    Everything drawn depends on the epoch alone, so that two lam differ by themselves only. The search is left as it is.
    """
    config = problem.config
    network = state.plain().train()
    learning_rate = probe_learning_rate(problem, state)
    optimizer = torch.optim.SGD(
        network.parameters(), learning_rate, momentum=MOMENTUM, nesterov=True, weight_decay=config.weight_decay
    )
    generator = generator_for(config.seed, f"probe after epoch {epoch}", state.device)
    with torch.random.fork_rng([] if state.device.type == "cpu" else [state.device]):
        torch.manual_seed(derived_seed(config.seed, f"probe after epoch {epoch}"))
        for images, labels in _batches(data.train, state.train_stream.batch_size, generator):
            inputs = problem.augment(images, lam.expand(len(images), -1), generator)
            optimizer.zero_grad()
            F.cross_entropy(network(inputs), labels).backward()
            optimizer.step()
    return _validation_loss(problem, network.eval(), data.val)


def probe_learning_rate(problem: Problem, state: SearchState) -> float:
    """Of a probe: that of the search's next step, but not too little."""
    return max(state.learning_rate, LEAST_LEARNING_RATE * problem.config.learning_rate)


@functools.cache
def probe_reach() -> float:
    """How far the steps of a probe go along a gradient that stays the same, in units of its learning rate."""
    velocity = reach = 0.0
    for _ in range(PROBE_STEPS):
        velocity = MOMENTUM * velocity + 1
        reach += 1 + MOMENTUM * velocity
    return reach


@torch.no_grad()
def _validation_loss(problem: Problem, network: nn.Module, val: Images) -> float:
    """Mean over batches of the loss that lambda steps see, calibrated where they are."""
    losses, n_images = [], 0
    with contextlib.closing(val.once(VALIDATION_BATCH_SIZE)) as batches:
        for images, labels in batches:
            logits = network(problem.preprocessing.measure(as_floats(images)))
            losses.append(problem.loss(logits, labels) * len(labels))
            n_images += len(labels)
    return float(torch.stack(losses).sum()) / n_images


def _batches(data: Images, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
    """PROBE_STEPS random batches, in passes where there are fewer."""
    left = PROBE_STEPS
    while left:
        order = torch.randperm(len(data), generator=generator, device=data.device)
        with contextlib.closing(data.batches(order, batch_size, 0)) as batches:
            for images, labels in itertools.islice(batches, left):
                yield as_floats(images), labels
                left -= 1
