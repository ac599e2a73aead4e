"""What learns the weights: an ordinary network, or a hypernetwork. Each goes with its optimizer and its schedule."""

import copy
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from hba.algorithms.task import Task
from hba.distributed.collectives import average_gradients
from hba.hypernet import HyperNetwork, TunedRates
from hba.training.amp import check_passes, disable_amp, enable_amp
from hba.training.criterion import error_share, loss_of
from hba.training.plateau import Plateau
from hba.utils.seeding import derived_seed


@dataclass(kw_only=True)
class InnerModel:
    """optimizer: of the weights. schedule: of its learning rate, which changes at every step."""

    optimizer: Optimizer
    schedule: LRScheduler

    @property
    def learning_rate(self) -> float:
        """Of the next training step."""
        return float(self.schedule.get_last_lr()[0])

    def update(self) -> None:
        """One step along the gradients that the weights have, or their means over the processes."""
        average_gradients(one for group in self.optimizer.param_groups for one in group["params"])
        self.optimizer.step()
        # Nobody reads them any more: the next pass has their memory.
        self.optimizer.zero_grad()
        self.schedule.step()

    def observe(self, loss: float) -> None:
        """The validation loss of an epoch that ended, for the schedule that goes by it."""
        if isinstance(self.schedule, Plateau):
            self.schedule.observe(loss)

    def to_module(self, lam: Tensor) -> nn.Module:
        """An ordinary network with the weights that belong to lam (n,), in a copy."""
        raise NotImplementedError


@dataclass(kw_only=True)
class NetworkLearner(InnerModel):
    """An ordinary network, whose weights do not depend on lambda."""

    network: nn.Module

    @classmethod
    def of(cls, task: Task, network: nn.Module) -> Self:
        network = network.to(task.device)
        if task.config.fast:
            check_passes(enable_amp(network), task.input_shape)
        optimizer, schedule = task.optimizer_of(network.parameters())
        return cls(network=network, optimizer=optimizer, schedule=schedule)

    def learn(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """One step on a batch (B, C, H, W), as the network takes it, and its labels: loss, and share of error."""
        self.network.train()
        logits = self.network(images)
        loss = loss_of(logits, labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.update()
        return loss.detach(), error_share(logits, labels)

    def to_module(self, lam: Tensor) -> nn.Module:
        # Who has it afterwards did not ask for bfloat16.
        return disable_amp(copy.deepcopy(self.network))


@dataclass(kw_only=True)
class HyperModel(InnerModel):
    """A hypernetwork with its parameters phi."""

    hypernetwork: HyperNetwork

    @classmethod
    def of(cls, task: Task, network: nn.Module, lam: Tensor, sharing: str, response_weight_decay: float | None) -> Self:
        """phi is made of the network's weights. The response has a weight decay of its own; None is the weights'."""
        directions = torch.Generator().manual_seed(derived_seed(task.config.seed, "hyper-layers"))
        columns = task.regularization.dropout_columns
        rates = TunedRates(columns, task.space.decode) if columns else None
        hypernetwork = HyperNetwork(network, len(lam), sharing, directions, rates).to(task.device)
        response = hypernetwork.response_parameters()
        of_response = {id(parameter) for parameter in response}
        weights = [parameter for parameter in hypernetwork.parameters() if id(parameter) not in of_response]
        decay = task.config.weight_decay if response_weight_decay is None else response_weight_decay
        groups: list[dict[str, Any]] = [{"params": weights}, {"params": response, "weight_decay": decay}]
        if task.regularization.weight_decay_column is not None:
            # It is in the loss, for each image.
            groups = [{**group, "weight_decay": 0.0} for group in groups]
        optimizer, schedule = task.optimizer_of(groups)
        return cls(hypernetwork=hypernetwork, optimizer=optimizer, schedule=schedule)

    def to_module(self, lam: Tensor) -> nn.Module:
        return self.hypernetwork.to_module(lam)
