"""The state of the algorithms that move lambda by gradient descent (Algorithms 5 and 6)."""

from dataclasses import dataclass
from typing import Any

from torch.optim import Adam

from hba.config import SearchConfig
from hba.data.batches import BatchStream
from hba.data.load import SearchData
from hba.search.networks import Networks
from hba.search.state import HyperState, hyper_fields
from hba.seeding import derived_seed
from hba.space import SearchSpace


@dataclass(kw_only=True)
class GradientState(HyperState):
    """lam is a leaf that the lambda optimizer moves."""

    WITH_STATE_DICT = (*HyperState.WITH_STATE_DICT, "lambda_optimizer", "val_stream")

    lambda_optimizer: Adam
    val_stream: BatchStream


def gradient_fields(config: SearchConfig, space: SearchSpace, networks: Networks, data: SearchData) -> dict[str, Any]:
    """Line 2 of Algorithms 2, 5 and 6: phi from a network, lambda at the space's initial values."""
    fields = hyper_fields(config, space.initial(), networks(0), data)
    lam = fields["lam"].requires_grad_()
    return {
        **fields,
        "lambda_optimizer": Adam([lam], lr=config.lambda_learning_rate),
        "val_stream": BatchStream(data.val, config.batch_size, derived_seed(config.seed, "validation batches")),
    }
