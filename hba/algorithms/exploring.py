"""What the two algorithms with a population of lambdas share: its size, where it starts, which member is selected."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from hba.algorithms.algorithm import Noisy
from hba.algorithms.update_schedule import UpdateSchedule
from hba.config.search import CommonSearchConfig
from hba.data.batches import BatchStream
from hba.data.config import Size
from hba.errors import SettingsError
from hba.utils.settings import DefaultText


class Exploring(Noisy):
    """An algorithm that selects among members, which then explore; the paper's settings are its defaults."""

    initial_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.05
    train_steps: Size = 2
    population_size: Annotated[Annotated[int, Field(ge=2)] | None, DefaultText("the batch size, as in the paper")] = (
        None
    )
    """Members of a population, each on its part of a batch."""

    @property
    def update_schedule(self) -> UpdateSchedule:
        return UpdateSchedule(self.train_steps, stride=self.sigma, selects=True)

    def check(self, config: CommonSearchConfig) -> None:
        if self.population_size is not None and config.batch_size % self.population_size:
            raise SettingsError(
                "every member must get the same number of images of a batch, "
                f"got batch_size {config.batch_size} for population_size {self.population_size}"
            )

    def members_of(self, stream: BatchStream) -> int:
        """How many members there are; each trains on an equal part of every batch, one image each in the paper."""
        size = self.population_size or stream.batch_size
        if stream.batch_size % size:
            raise SettingsError(
                "every member must get the same number of images of a batch, "
                f"got batches of {stream.batch_size} images for population_size {size}"
            )
        return size

    def explored(self, lam: Tensor, n_members: int, generator: torch.Generator) -> Tensor:
        """lambda_i = lambda + epsilon_i, with epsilon_i of standard deviation sigma: (n_members, n) from (n,)."""
        noise = torch.randn(n_members, len(lam), generator=generator, device=lam.device)
        return lam.detach() + self.sigma * noise


def best_of(losses: Tensor) -> Tensor:
    """k = argmin over the members' losses (members,), as a tensor (1,); a loss that is not finite never wins."""
    return losses.nan_to_num(nan=torch.inf).argmin(keepdim=True)
