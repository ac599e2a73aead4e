"""What the two algorithms with a population of lambdas share: its size, where it starts, whom it selects."""

import torch
from torch import Tensor

from hba.config.search import SearchConfig
from hba.data.batches import BatchStream
from hba.errors import SettingsError


def members_of(config: SearchConfig, stream: BatchStream) -> int:
    """How many members there are; each trains on an equal part of every batch, one image each in the paper."""
    size = config.population_size or stream.batch_size
    if stream.batch_size % size:
        raise SettingsError(
            "every member must get the same number of images of a batch, "
            f"got batches of {stream.batch_size} images for population_size {size}"
        )
    return size


def explored(lam: Tensor, n_members: int, sigma: float, generator: torch.Generator) -> Tensor:
    """lambda_i = lambda + epsilon_i, with epsilon_i of standard deviation sigma: (n_members, n) from (n,)."""
    noise = torch.randn(n_members, len(lam), generator=generator, device=lam.device)
    return lam.detach() + sigma * noise


def best_of(losses: Tensor) -> Tensor:
    """k = argmin over the members' losses (members,), as a tensor (1,); a loss that is not finite never wins."""
    return losses.nan_to_num(nan=torch.inf).argmin(keepdim=True)
