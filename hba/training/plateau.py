"""A learning rate that waits for the validation loss: STN's schedule (MacKay et al. 2019, appendix E)."""

import math

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

PLATEAU_FACTOR = 0.1


class Plateau(LRScheduler):
    """A share of the learning rate, a tenth, each time that the validation loss was not below its least for `patience`
    epochs.

    It steps at every training step, as the other schedules do; `observe` is called at the end of every epoch. Step k of
    the warm-up, counted from 1, has k / (warm_up_steps + 1) of the rate.
    """

    def __init__(
        self, optimizer: Optimizer, patience: int, warm_up_steps: int = 0, factor: float = PLATEAU_FACTOR
    ) -> None:
        self.patience, self.warm_up_steps, self.factor = patience, warm_up_steps, factor
        self.least, self.epochs_since, self.drops = math.inf, 0, 0
        super().__init__(optimizer)

    def get_lr(self) -> list[float | Tensor]:
        """Of the next training step, by group of parameters."""
        risen = min(1.0, (self.last_epoch + 1) / (self.warm_up_steps + 1))
        return [float(rate) * risen * self.factor**self.drops for rate in self.base_lrs]

    def observe(self, loss: float) -> None:
        """The validation loss of the epoch that ended, in nats; one that is not finite is no decrease."""
        if loss < self.least:
            self.least, self.epochs_since = loss, 0
            return
        self.epochs_since += 1
        if self.epochs_since < self.patience:
            return
        self.epochs_since = 0
        self.drops += 1
        self._last_lr = self.get_lr()
        for group, rate in zip(self.optimizer.param_groups, self._last_lr, strict=True):
            group["lr"] = rate
