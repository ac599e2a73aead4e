"""Everything that changes during a search: the hyperparameters, the weights, and their
optimizer.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Self

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from typing_extensions import TypeVar

from hba.algorithms.problem import Batches, SearchProblem
from hba.hypernet import HyperNetwork, TunedRates
from hba.models import build_model
from hba.tasks import MixedLabels, task_of
from hba.training.amp import amp_forward, enable_amp
from hba.training.optim import Plateau
from hba.utils.graphs import EAGER
from hba.utils.seeding import derived_seed

Networks = Callable[[int], nn.Module]
"""Returns the initial network of a member, counted from 0. A search with one network
uses member 0.
"""


def named_networks(
    model: str, n_classes: int, seed: int, *other_arguments: Any
) -> Networks:
    """Networks of one model, each with its own initial weights.

    Args:
        model: Name of the network.
        n_classes: Number of classes.
        seed: Seed of the search.
        other_arguments: Arguments of build_model.
    """

    def network(member: int) -> nn.Module:
        label = "weights" if member == 0 else f"weights of member {member}"
        return build_model(
            model, n_classes, derived_seed(seed, label), *other_arguments
        )

    return network


@dataclass(kw_only=True)
class InnerModel:
    """The trained weights and their optimizer."""

    optimizer: Optimizer
    """The optimizer of the weights."""
    schedule: LRScheduler
    """The schedule of the learning rate, which changes at every step."""

    @property
    def learning_rate(self) -> float:
        """Learning rate of the next training step."""
        return float(self.schedule.get_last_lr()[0])

    def update(self) -> None:
        """Make one step along the gradients; the schedule makes its own."""
        self.optimizer.step()
        # Frees the memory of the gradients for the next pass.
        self.optimizer.zero_grad()

    def observe(self, loss: float) -> None:
        """Pass an epoch's validation loss to the schedule, if it depends on it."""
        if isinstance(self.schedule, Plateau):
            self.schedule.observe(loss)

    def to_module(self, lam: Tensor) -> nn.Module:
        """Return an ordinary network with a copy of the weights at lam (n,)."""
        raise NotImplementedError


@dataclass(kw_only=True)
class NetworkModel(InnerModel):
    """An ordinary network, whose weights do not depend on lambda."""

    network: nn.Module

    @staticmethod
    def of(problem: SearchProblem, network: nn.Module) -> "NetworkModel":
        network = network.to(problem.device)
        if problem.config.fast:
            enable_amp(network)
        optimizer, schedule = problem.optimizer_of(network.parameters())
        model_class = AmpNetworkModel if problem.config.fast else NetworkModel
        return model_class(network=network, optimizer=optimizer, schedule=schedule)

    def forward(self, images: Tensor) -> Tensor:
        """Logits (B, classes) of images (B, C, H, W), which are the network's input."""
        return self.network(images)

    def learn(
        self, images: Tensor, labels: Tensor | MixedLabels
    ) -> tuple[Tensor, Tensor]:
        """Make one step on a batch.

        Args:
            images: The network's input (B, C, H, W).
            labels: Labels of the images.

        Returns:
            Loss () and share of errors ().
        """
        self.network.train()
        logits = self.forward(images)
        task = task_of(labels)
        loss = task.loss(logits, labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.update()
        return loss.detach(), task.error_share(logits, labels)

    def to_module(self, lam: Tensor) -> nn.Module:
        return copy.deepcopy(self.network)


class AmpNetworkModel(NetworkModel):
    """A NetworkModel in mixed precision, for the setting `fast`."""

    def forward(self, images: Tensor) -> Tensor:
        return amp_forward(self.network, images)


@dataclass(kw_only=True)
class HyperModel(InnerModel):
    """A hypernetwork with its parameters phi."""

    hypernetwork: HyperNetwork

    @classmethod
    def of(
        cls, problem: SearchProblem, network: nn.Module, lam: Tensor, sharing: str
    ) -> Self:
        """phi starts at the network's weights. The optimizer has two groups: the
        weights, and their response.
        """
        directions = torch.Generator().manual_seed(
            derived_seed(problem.config.seed, "hyper-layers")
        )
        columns = problem.regularization.dropout_columns
        rates = TunedRates(columns, problem.space.decode) if columns else None
        hypernetwork = HyperNetwork(network, len(lam), sharing, directions, rates).to(
            problem.device
        )
        weights = [*hypernetwork.current_parameters().values()]
        response = hypernetwork.response_parameters()
        groups: list[dict[str, Any]] = [{"params": weights}, {"params": response}]
        if problem.regularization.weight_decay_column is not None:
            # A tuned weight decay is part of the loss, with a value for each image.
            groups = [{**group, "weight_decay": 0.0} for group in groups]
        optimizer, schedule = problem.optimizer_of(groups)
        return cls(hypernetwork=hypernetwork, optimizer=optimizer, schedule=schedule)

    def to_module(self, lam: Tensor) -> nn.Module:
        return self.hypernetwork.to_module(lam)


@dataclass
class EpochTotals:
    """Sums over the steps of an epoch, each a scalar on the device."""

    train_loss: Tensor
    train_error: Tensor
    train_steps: Tensor
    lambda_loss: Tensor
    lambda_steps: Tensor

    def add_training(self, loss: Tensor, error: Tensor) -> None:
        """Loss () and share of errors () of a training step."""
        self.train_loss += loss
        self.train_error += error
        self.train_steps += 1

    def add_lambda(self, loss: Tensor) -> None:
        """Validation loss () of a lambda step, or of the selected member."""
        self.lambda_loss += loss
        self.lambda_steps += 1

    def reset(self) -> None:
        for total in vars(self).values():
            total.zero_()

    def means(self) -> tuple[float, float, float | None]:
        """Means over the steps of the epoch.

        Returns:
            Training loss, training error in per cent, and loss of the lambda steps
            (None without any).
        """
        loss, error, n_train, lambda_loss, n_lambda = torch.stack(
            [*vars(self).values()]
        ).tolist()
        return (
            loss / n_train,
            100 * error / n_train,
            lambda_loss / n_lambda if n_lambda else None,
        )


L = TypeVar("L", bound=InnerModel, default=Any)


@dataclass(kw_only=True)
class SearchState(Generic[L]):
    """Everything that changes during a search.

    Subclasses may add fields. All fields are saved and restored.
    """

    graphs = EAGER
    """Runs steps; not saved."""

    lam: Tensor
    """The current hyperparameters (n,), as logits."""
    learner: L
    """The weights and their optimizer."""
    train_stream: Batches
    """Batches of D_T."""
    generator: torch.Generator
    """Generator of all random numbers of the search."""
    totals: EpochTotals
    """Sums over the current epoch."""
    step: int = 0
    """Training steps so far."""

    @classmethod
    def of(cls, problem: SearchProblem, lam: Tensor, learner: L, **fields: Any) -> Self:
        """The state before the first step.

        Args:
            problem: The problem of the search.
            lam: The hyperparameters (n,), as logits.
            learner: The weights and their optimizer.
            fields: Fields of a subclass.
        """
        stream = problem.train_stream()
        totals = EpochTotals(*torch.zeros(5, device=problem.device).unbind())
        return cls(
            lam=lam,
            learner=learner,
            train_stream=stream,
            generator=problem.generator(),
            totals=totals,
            **fields,
        )

    @property
    def steps_per_epoch(self) -> int:
        return self.train_stream.batches_per_pass

    @property
    def device(self) -> torch.device:
        return self.lam.device

    def to_module(self) -> nn.Module:
        """Return an ordinary network with a copy of the weights at lam."""
        return self.learner.to_module(self.lam.detach())
