"""The problems: a ridge regression, the augmentation that makes its penalty, and a linear network that learns it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol

import torch
from torch import Tensor, nn

from exact.ridge import Ridge, Rows, diabetes
from hba.hypernet import HyperNetwork

N_TRAIN = 40
SPLIT_SEED = 2
PAPER_START = -2.94
"""Where the paper's search starts all logits."""


class Regularizer(Protocol):
    """An augmentation whose expected squared loss is the ridge's training loss; every row has its own lambda."""

    def batch(self, train: Rows, copies: int) -> Rows:
        """All rows, `copies` times."""

    def augment(self, inputs: Tensor, lam_rows: Tensor, generator: torch.Generator) -> Tensor:
        """inputs (B, d) at lam_rows (B, n)."""


@dataclass(frozen=True)
class InputNoise:
    """x + exp(lambda) xi with normal xi: E (w (x + e^lambda xi) - y)^2 = (w x - y)^2 + e^(2 lambda) |w|^2."""

    groups: Tensor

    def batch(self, train: Rows, copies: int) -> Rows:
        return _repeated(train, copies)

    def augment(self, inputs: Tensor, lam_rows: Tensor, generator: torch.Generator) -> Tensor:
        noise = torch.randn(inputs.shape, dtype=inputs.dtype, generator=generator)
        return inputs + lam_rows.exp()[:, self.groups] * noise


@dataclass(frozen=True)
class WeightDecay:
    """A row sqrt(N e^lambda) e_j with target 0 for each feature j: its squared loss is N e^lambda w_j^2.

    n_rows: N, of the training rows. They come first in a batch, the d rows of weight decay last.
    """

    n_rows: int

    def batch(self, train: Rows, copies: int) -> Rows:
        rows = _repeated(train, copies)
        unit = torch.eye(rows.inputs.shape[1], dtype=rows.inputs.dtype).repeat(copies, 1)
        return Rows(torch.cat([rows.inputs, unit]), torch.cat([rows.targets, rows.targets.new_zeros(len(unit))]))

    def augment(self, inputs: Tensor, lam_rows: Tensor, generator: torch.Generator) -> Tensor:
        n_features = inputs.shape[1]
        copies = len(inputs) // (self.n_rows + n_features)
        lengths = torch.ones_like(lam_rows[:, :1])
        decay = slice(self.n_rows * copies, None)
        lengths[decay] = (self.n_rows * lam_rows[decay, :1].exp()).sqrt()
        return inputs * lengths


def _repeated(rows: Rows, copies: int) -> Rows:
    return Rows(rows.inputs.repeat(copies, 1), rows.targets.repeat(copies))


@dataclass(frozen=True)
class Problem:
    """depth: linear layers of the network; 1 is linear regression. copies: of each row in a step, for less noise.

    start: where the search starts every lambda. held: where lambda stays, to see the response converge. warm_up:
    training steps before the first of lambda.
    """

    title: str
    ridge: Ridge
    regularizer: Regularizer
    depth: int
    start: float
    learning_rate: float
    sigma: float
    n_steps: int
    held: float = -1.0
    lambda_learning_rate: float = 0.03
    copies: int = 4
    train_steps: int = 10
    warm_up: int = 0

    def loss_of(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Squared loss of outputs (B, 1), a mean over training rows alone, which rows of weight decay are not."""
        n_rows = self.copies * len(self.ridge.train.targets)
        return (outputs[:, 0] - targets).square().sum() / n_rows

    def network(self, generator: torch.Generator) -> nn.Sequential:
        """`depth` linear maps without bias, orthogonal so that none starts small, then a last layer that only reads.

        No strategy gives the last linear layer a hyper-layer; here it is 1 and stays so.
        """
        d = self.ridge.n_features
        widths = [d] * self.depth + [1]
        layers = [nn.Linear(widths[i], widths[i + 1], bias=False) for i in range(self.depth)]
        for layer in layers:
            nn.init.orthogonal_(layer.weight, generator=generator)
        reading = nn.Linear(1, 1, bias=False)
        nn.init.ones_(reading.weight)
        reading.requires_grad_(False)
        return nn.Sequential(*layers, reading).double()


def at_weights(network: nn.Sequential, weights: Tensor) -> nn.Sequential:
    """The linear network, its first layer changed as little as it takes for effective weights (d,)."""
    first = network.get_parameter("0.weight")
    with torch.no_grad():
        after = network[1:](torch.eye(len(first), dtype=first.dtype))
        now = network(torch.eye(len(weights), dtype=first.dtype))[:, 0]
        first.add_(after @ (weights - now)[None] / after.square().sum())
    return network


def hypernetwork_of(problem: Problem, network: nn.Sequential, generator: torch.Generator) -> HyperNetwork:
    """A hyper-layer for each linear map."""
    return HyperNetwork(network, problem.ridge.n, "all", generator).double()


def effective_weights(hypernetwork: HyperNetwork, lam: Tensor) -> Tensor:
    """w (d,) of the function x -> w x that the linear network is at lam (n,)."""
    first = hypernetwork.get_parameter("model.0.weight_0")
    return hypernetwork(torch.eye(first.shape[1], dtype=first.dtype), lam)[:, 0]


def effective_jacobian(hypernetwork: HyperNetwork, lam: Tensor) -> Tensor:
    """dw/dlambda (d, n) at lam (n,)."""
    return torch.autograd.functional.jacobian(lambda where: effective_weights(hypernetwork, where), lam.detach())


def _problems() -> dict[str, Problem]:
    n_features = 10
    one, halves = torch.zeros(n_features, dtype=torch.long), torch.arange(n_features) // (n_features // 2)
    noise = Problem(
        title="Linear regression, input noise",
        ridge=diabetes(N_TRAIN, one, 2.0, SPLIT_SEED),
        regularizer=InputNoise(one),
        depth=1,
        start=-2.0,
        learning_rate=0.05,
        sigma=0.3,
        n_steps=2500,
    )
    decay = replace(
        noise,
        title="Linear regression, weight decay",
        ridge=diabetes(N_TRAIN, one, 1.0, SPLIT_SEED),
        regularizer=WeightDecay(N_TRAIN),
        start=PAPER_START,
        learning_rate=0.03,
        sigma=0.5,
    )
    deep = replace(
        noise, title="Linear network of 4 layers, input noise", depth=4, learning_rate=0.02, sigma=0.5, n_steps=2000
    )
    groups = replace(
        noise,
        title="Linear regression, noise of two scales",
        ridge=diabetes(N_TRAIN, halves, 2.0, SPLIT_SEED),
        regularizer=InputNoise(halves),
    )
    # The size of Delta-STN, section 5.1.
    wide = replace(decay, title="Linear regression, weight decay, wide noise on λ", sigma=1.0)
    return {"noise": noise, "decay": decay, "decay-wide": wide, "deep": deep, "groups": groups}


PROBLEMS: Mapping[str, Problem] = MappingProxyType(_problems())
