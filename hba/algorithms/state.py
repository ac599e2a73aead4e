"""The state of a search: one record that is saved and restored whole. What all algorithms share of it."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.optim import SGD
from torch.optim.lr_scheduler import LRScheduler

from hba.config.search import SearchConfig
from hba.data.batches import BatchStream
from hba.data.load import SearchData
from hba.hypernet import HyperNetwork
from hba.runtime.seeding import default_generator_state, derived_seed, generator_for, restore_default_generators
from hba.training.optimizer import sgd_of


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


@dataclass(kw_only=True)
class SearchState:
    """Everything that changes during a search; each algorithm adds what it needs, and names it for saving.

    lam (n,): the hyperparameters that the search stands at, as logits. rows: one row of values (n,) in natural units
    per finished epoch. metrics: one mapping per finished epoch. seconds: computing time so far, over all runs. epochs:
    how many there are to be; lengthened: how that came to be more than it was, as hba/policy_search/lengthen.py says.
    """

    WITH_STATE_DICT: ClassVar[tuple[str, ...]] = ("train_stream",)
    """Fields saved by their own state_dict()."""
    TENSORS: ClassVar[tuple[str, ...]] = ("lam",)
    """Fields that are tensors of a fixed shape."""
    PLAIN: ClassVar[tuple[str, ...]] = ("step", "rows", "metrics", "seconds", "epochs", "lengthened")

    lam: Tensor
    train_stream: BatchStream
    generator: torch.Generator
    totals: EpochTotals
    epochs: int
    step: int = 0
    rows: list[list[float]] = field(default_factory=list)
    metrics: list[dict[str, float | None]] = field(default_factory=list)
    seconds: float = 0.0
    lengthened: list[dict[str, int]] = field(default_factory=list)

    @property
    def steps_per_epoch(self) -> int:
        return self.train_stream.batches_per_pass

    @property
    def device(self) -> torch.device:
        return self.lam.device

    @property
    def learning_rate(self) -> float:
        """Of the next training step."""
        return float(self.weights_learning()[1].get_last_lr()[0])

    def weights_learning(self) -> tuple[SGD, LRScheduler]:
        """What updates the weights, and the schedule of its learning rate."""
        raise NotImplementedError

    def plain(self) -> nn.Module:
        """An ordinary network with the weights that belong to lam, in a copy."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Tensors, numbers, lists and mappings only."""
        return {
            **{name: getattr(self, name).state_dict() for name in self.WITH_STATE_DICT},
            **{name: getattr(self, name).detach() for name in self.TENSORS},
            **{name: getattr(self, name) for name in self.PLAIN},
            "generator": self.generator.get_state(),
            "totals": self.totals.sums,
            "default_generators": default_generator_state(self.device),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in self.WITH_STATE_DICT:
            getattr(self, name).load_state_dict(state[name])
        with torch.no_grad():
            for name in self.TENSORS:
                getattr(self, name).copy_(state[name])
        for name in self.PLAIN:
            setattr(self, name, state[name])
        self.generator.set_state(state["generator"].cpu())
        self.totals.sums.copy_(state["totals"])
        restore_default_generators(state["default_generators"], self.device)


@dataclass(kw_only=True)
class OneModelState(SearchState):
    """Of the algorithms that train one model: what updates its weights."""

    WITH_STATE_DICT = (*SearchState.WITH_STATE_DICT, "weight_optimizer", "weight_schedule")

    weight_optimizer: SGD
    weight_schedule: LRScheduler

    def weights_learning(self) -> tuple[SGD, LRScheduler]:
        return self.weight_optimizer, self.weight_schedule


@dataclass(kw_only=True)
class HyperState(OneModelState):
    """Of the algorithms whose model is a hypernetwork, with its phi."""

    WITH_STATE_DICT = (*OneModelState.WITH_STATE_DICT, "hypernetwork")

    hypernetwork: HyperNetwork

    def plain(self) -> nn.Module:
        return self.hypernetwork.plain(self.lam.detach())


def shared_fields(config: SearchConfig, lam: Tensor, data: SearchData) -> dict[str, Any]:
    """The fields of a SearchState at its beginning. data is on its device."""
    device = data.train.labels.device
    return {
        "lam": lam.to(device),
        "train_stream": BatchStream(data.train, config.batch_size, derived_seed(config.seed, "training batches")),
        "generator": generator_for(config.seed, "augmentation", device),
        "totals": EpochTotals(torch.zeros(5, device=device)),
        "epochs": config.epochs,
    }


def hyper_fields(config: SearchConfig, lam: Tensor, network: nn.Module, data: SearchData) -> dict[str, Any]:
    """The fields of a HyperState at its beginning: phi is made of the network's weights."""
    fields = shared_fields(config, lam, data)
    directions = torch.Generator().manual_seed(derived_seed(config.seed, "hyper-layers"))
    hypernetwork = HyperNetwork(network, len(lam), config.sharing, directions).to(fields["lam"].device)
    optimizer, schedule = sgd_of(
        config, _parameter_groups(hypernetwork, config), fields["train_stream"].batches_per_pass
    )
    return {**fields, "hypernetwork": hypernetwork, "weight_optimizer": optimizer, "weight_schedule": schedule}


def _parameter_groups(hypernetwork: HyperNetwork, config: SearchConfig) -> list[dict[str, Any]]:
    """For the optimizer: the response of the hyper-layers apart from the weights, with a weight decay of its own."""
    response = hypernetwork.response_parameters()
    of_response = {id(parameter) for parameter in response}
    weights = [parameter for parameter in hypernetwork.parameters() if id(parameter) not in of_response]
    decay = config.weight_decay if config.response_weight_decay is None else config.response_weight_decay
    return [{"params": weights}, {"params": response, "weight_decay": decay}]
