"""The networks that a search starts from."""

import copy
from collections.abc import Callable

from torch import nn

from hba.models import Start, build_model
from hba.training.custom_network import check_trainable
from hba.utils.seeding import derived_seed

Networks = Callable[[int], nn.Module]
"""From a member's number, counted from 0, to a network of its own. One hypernetwork takes the first."""


def named_networks(
    model: str,
    n_classes: int,
    seed: int,
    image_size: int | None = None,
    start: Start | None = None,
    in_channels: int = 3,
) -> Networks:
    """Networks of one kind, each freshly initialised. image_size: side in pixels of what the network is given. start:
    what all of them begin with in the place of fresh weights. in_channels: of the images.
    """
    return lambda member: build_model(
        model,
        n_classes,
        derived_seed(seed, "weights" if member == 0 else f"weights of member {member}"),
        image_size,
        start,
        in_channels,
    )


def equal_networks(network: nn.Module) -> Networks:
    """Copies of a network that the user made, because nobody else knows how it is initialised.

    Raises SettingsError for one that has nothing to train.
    """
    check_trainable(network)
    return lambda member: copy.deepcopy(network)
