"""The state of a search: one record that is saved and restored whole. What all algorithms share of it."""

from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from hba.algorithms.inner_model import InnerModel
from hba.data.batches import BatchStream
from hba.distributed import collectives


@dataclass
class EpochTotals:
    """Sums over the steps of an epoch, each a scalar on the device."""

    train_loss: Tensor
    train_error: Tensor
    train_steps: Tensor
    lambda_loss: Tensor
    lambda_steps: Tensor

    @staticmethod
    def zero(device: torch.device) -> "EpochTotals":
        return EpochTotals(*torch.zeros(5, device=device).unbind())

    def add_training(self, loss: Tensor, error: Tensor) -> None:
        """Loss () and share of error () of a training step."""
        self.train_loss += loss
        self.train_error += error
        self.train_steps += 1

    def add_lambda(self, loss: Tensor) -> None:
        """Validation loss () of a lambda step, or of the member that was selected."""
        self.lambda_loss += loss
        self.lambda_steps += 1

    def share(self) -> None:
        """Let each process have the sums of the whole batches, where it has those of its own images."""
        totals = list(vars(self).values())
        for own, found in zip(totals, collectives.means(totals), strict=True):
            own.copy_(found)

    def reset(self) -> None:
        for total in vars(self).values():
            total.zero_()

    def means(self) -> tuple[float, float, float | None]:
        """Mean training loss, training error in per cent, mean loss of the lambda steps (None without any)."""
        self.share()
        sums = (self.train_loss, self.train_error, self.train_steps, self.lambda_loss, self.lambda_steps)
        loss, error, n_train, lambda_loss, n_lambda = torch.stack(sums).tolist()
        return loss / n_train, 100 * error / n_train, lambda_loss / n_lambda if n_lambda else None


L = TypeVar("L", bound=InnerModel)


@dataclass(kw_only=True)
class SearchState(Generic[L]):
    """Everything that changes during a search. An algorithm that needs more adds fields; all are saved and restored.

    lam (n,): the hyperparameters that the search stands at, as logits. learner: the weights, and what updates them.
    train_stream: batches of D_T. generator: of all that the search draws itself. step: training steps so far.
    """

    lam: Tensor
    learner: L
    train_stream: BatchStream
    generator: torch.Generator
    totals: EpochTotals
    step: int = 0

    @property
    def steps_per_epoch(self) -> int:
        return self.train_stream.batches_per_pass

    @property
    def device(self) -> torch.device:
        return self.lam.device

    def to_module(self) -> nn.Module:
        """An ordinary network with the weights that belong to lam, in a copy."""
        return self.learner.to_module(self.lam.detach())
