"""A policy in the plain numbers of the player."""

from torch import Tensor

from hba.policy.player import PlainRow, row_at
from hba.policy.space import SearchSpace
from hba.policy.tables import tables_of


def plain_row(
    space: SearchSpace, values: Tensor, spread: Tensor | None = None
) -> PlainRow:
    """Of values and spread (n,), as draw_with_trace takes them."""
    operations = {slot.operation.name: slot.operation for slot in space.slots}
    spreads = None if spread is None else spread[None].numpy()
    return row_at(operations, tables_of(space, values[None].numpy(), spreads), 0)
