"""The state of the algorithms that move lambda by gradient descent: Algorithms 5 and 6, and look-ahead."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor
from torch.optim import Adam

from hba.algorithms.moves import Moves
from hba.algorithms.networks import Networks
from hba.algorithms.responses import RESPONSES
from hba.algorithms.state import HyperState, SearchState, hyper_fields
from hba.config.search import SearchConfig
from hba.data.batches import BatchStream
from hba.data.load import SearchData
from hba.policy.space import SearchSpace
from hba.runtime.seeding import derived_seed


@dataclass(kw_only=True)
class GradientState(SearchState):
    """lam is a leaf that the lambda optimizer moves. moves: its lambda steps since the last probe."""

    OF_LAMBDA_STEPS: ClassVar[tuple[str, ...]] = ("lambda_optimizer", "val_stream", "moves")
    WITH_STATE_DICT = (*SearchState.WITH_STATE_DICT, *OF_LAMBDA_STEPS)

    lambda_optimizer: Adam
    val_stream: BatchStream
    moves: Moves


@dataclass(kw_only=True)
class HyperGradientState(HyperState, GradientState):
    """The gradient of lambda comes through a hypernetwork."""

    WITH_STATE_DICT = (*HyperState.WITH_STATE_DICT, *GradientState.OF_LAMBDA_STEPS)


def lambda_fields(config: SearchConfig, lam: Tensor, data: SearchData) -> dict[str, Any]:
    """What a GradientState adds; lam is the tensor of the state, on its device."""
    optimizer = Adam([lam.requires_grad_()], lr=config.lambda_learning_rate, betas=config.lambda_betas)
    batch_size = config.val_batch_size or config.batch_size
    return {
        "lambda_optimizer": optimizer,
        "val_stream": BatchStream(data.val, batch_size, derived_seed(config.seed, "validation batches")),
        "moves": Moves.since(lam),
    }


def hyper_gradient_fields(
    config: SearchConfig, space: SearchSpace, networks: Networks, data: SearchData
) -> dict[str, Any]:
    """Line 2 of Algorithms 2, 5 and 6: phi from a network, lambda at the space's initial values."""
    fields = hyper_fields(config, space.initial(config.initial_fraction), networks(0), data)
    if RESPONSES[config.response].centered:
        fields["hypernetwork"].center.copy_(fields["lam"])
    return {**fields, **lambda_fields(config, fields["lam"], data)}
