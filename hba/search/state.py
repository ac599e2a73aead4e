"""The state of a search: one record that is saved and restored whole."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import CosineAnnealingLR

from hba.config import SearchConfig
from hba.data.batches import BatchStream
from hba.data.load import SearchData
from hba.hypernet import HyperNetwork
from hba.optimizer import sgd_with_cosine
from hba.seeding import default_generator_state, derived_seed, generator_for, restore_default_generators
from hba.space import SearchSpace


@dataclass
class EpochTotals:
    """Sums over the steps of an epoch, on the device: training loss, error share, count; lambda loss, count."""

    sums: Tensor

    def add_training(self, loss: Tensor, error: Tensor) -> None:
        self.sums[:3] += torch.stack([loss, error, torch.ones_like(loss)])

    def add_lambda(self, loss: Tensor) -> None:
        self.sums[3:] += torch.stack([loss, torch.ones_like(loss)])

    def means(self) -> tuple[float, float, float | None]:
        """Mean training loss, training error in per cent, mean loss of the lambda steps (None without any)."""
        loss, error, n_train, lambda_loss, n_lambda = self.sums.tolist()
        return loss / n_train, 100 * error / n_train, lambda_loss / n_lambda if n_lambda else None


@dataclass
class SearchState:
    """Everything that changes during a search.

    rows: one row of values (n,) in natural units per finished epoch. metrics: one mapping per finished epoch.
    seconds: computing time so far, over all runs.
    """

    hypernetwork: HyperNetwork
    lam: Tensor
    weight_optimizer: SGD
    weight_schedule: CosineAnnealingLR
    lambda_optimizer: Adam
    train_stream: BatchStream
    val_stream: BatchStream
    generator: torch.Generator
    totals: EpochTotals
    step: int = 0
    rows: list[list[float]] = field(default_factory=list)
    metrics: list[dict[str, float | None]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def steps_per_epoch(self) -> int:
        return self.train_stream.batches_per_pass

    @property
    def device(self) -> torch.device:
        return self.lam.device

    def state_dict(self) -> dict[str, Any]:
        """Tensors, numbers, lists and mappings only."""
        return {
            **{name: getattr(self, name).state_dict() for name in _WITH_STATE_DICT},
            **{name: getattr(self, name) for name in _PLAIN},
            "lam": self.lam.detach(),
            "generator": self.generator.get_state(),
            "totals": self.totals.sums,
            "default_generators": default_generator_state(self.device),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in _WITH_STATE_DICT:
            getattr(self, name).load_state_dict(state[name])
        for name in _PLAIN:
            setattr(self, name, state[name])
        with torch.no_grad():
            self.lam.copy_(state["lam"])
        self.generator.set_state(state["generator"].cpu())
        self.totals.sums.copy_(state["totals"])
        restore_default_generators(state["default_generators"], self.device)


_WITH_STATE_DICT = (
    "hypernetwork",
    "weight_optimizer",
    "weight_schedule",
    "lambda_optimizer",
    "train_stream",
    "val_stream",
)
_PLAIN = ("step", "rows", "metrics", "seconds")


def initial_state(config: SearchConfig, space: SearchSpace, network: nn.Module, data: SearchData) -> SearchState:
    """Line 2 of Algorithm 2: phi from the network, lambda at the space's initial values. data is on its device."""
    device = data.train.images.device
    directions = torch.Generator().manual_seed(derived_seed(config.seed, "hyper-layers"))
    hypernetwork = HyperNetwork(network, space.n, config.sharing, directions).to(device)
    lam = space.initial().to(device).requires_grad_()
    train_stream = BatchStream(data.train, config.batch_size, derived_seed(config.seed, "training batches"))
    weight_optimizer, weight_schedule = sgd_with_cosine(
        hypernetwork.parameters(),
        config.learning_rate,
        config.weight_decay,
        config.epochs * train_stream.batches_per_pass,
    )
    return SearchState(
        hypernetwork=hypernetwork,
        lam=lam,
        weight_optimizer=weight_optimizer,
        weight_schedule=weight_schedule,
        lambda_optimizer=Adam([lam], lr=config.lambda_learning_rate),
        train_stream=train_stream,
        val_stream=BatchStream(data.val, config.batch_size, derived_seed(config.seed, "validation batches")),
        generator=generator_for(config.seed, "augmentation", device),
        totals=EpochTotals(torch.zeros(5, device=device)),
    )
