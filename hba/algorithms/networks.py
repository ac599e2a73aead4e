"""The networks that a search starts from."""

import copy
from collections.abc import Callable

from torch import nn

from hba.errors import SettingsError
from hba.models import build_model
from hba.runtime.seeding import derived_seed

Networks = Callable[[int], nn.Module]
"""From a member's number, counted from 0, to a network of its own. One hypernetwork takes the first."""


def named_networks(model: str, n_classes: int, seed: int, image_size: int | None = None) -> Networks:
    """Networks of one kind, each freshly initialised. image_size: side in pixels of what the network is given."""
    return lambda member: build_model(
        model, n_classes, derived_seed(seed, "weights" if member == 0 else f"weights of member {member}"), image_size
    )


def equal_networks(network: nn.Module) -> Networks:
    """Copies of a network that the user made, because nobody else knows how it is initialised.

    Raises SettingsError for one that has nothing to train.
    """
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise SettingsError("the network must have parameters to train, and has none or all are frozen; unfreeze some")
    return lambda member: copy.deepcopy(network)
