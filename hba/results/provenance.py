"""What the provenance of a schedule says about the network of its search."""

import math
from collections.abc import Mapping
from typing import Any

from hba.utils.text import count_of, number_of


def network_measured(provenance: Mapping[str, Any]) -> dict[int, float]:
    """Return the validation error of the search network after its last epoch.

    Args:
        provenance: Of a schedule. It may come from elsewhere.

    Returns:
        The error in per cent by the epoch, counted from 1. Empty if the provenance has
        none, and for a race, which has many networks.
    """
    if "legs" in provenance:
        return {}
    epoch = count_of(provenance.get("epochs_finished"), least=1)
    error = number_of(provenance.get("val_error_percent"), 0, math.inf)
    return {} if epoch is None or error is None else {epoch: error}


def error_definition(provenance: Mapping[str, Any]) -> str | None:
    """The definition of the error, if it is not the share of wrong answers."""
    definition = provenance.get("error")
    return definition if isinstance(definition, str) else None
