"""The policies of a space as the tables that the player takes."""

import numpy as np
import torch

from hba.policy.player import Tables
from hba.policy.space import SearchSpace


def tables_of(
    space: SearchSpace, values: np.ndarray, spread: np.ndarray | None = None
) -> Tables:
    """Convert values and spread to the tables of their operations on single images.

    Args:
        space: With n hyperparameters.
        values: One row for each epoch, (epochs, n), in natural units.
        spread: Standard deviations in logits, of the same shape; None for 0.
    """
    columns = space.slot_columns(torch.device("cpu"))
    # Slots without magnitude have the column behind the last one: zeros.
    zeros = np.zeros((len(values), 1))
    padded = np.hstack([values, zeros])
    padded_spread = np.hstack(
        [np.zeros_like(values) if spread is None else spread, zeros]
    )

    def table(rows: np.ndarray, of_slots: torch.Tensor) -> list[list[float]]:
        chosen = rows[:, of_slots.numpy()]
        is_constant = bool((chosen == chosen[0]).all())
        kept: list[list[float]] = (chosen[:1] if is_constant else chosen).tolist()
        return kept

    slots = []
    for slot in space.slots:
        column = slot.magnitude
        low, high = (0.0, 0.0) if column is None else space.ranges[column]
        slots.append((slot.operation.name, low, high))
    class_moves = {}
    if space.class_moves is not None:
        class_moves = {
            name: [list(labels) for labels in moves]
            for name, moves in space.class_moves.labels
        }
    return Tables(
        epochs=len(values),
        slots=slots,
        walk=(space.walk_slots.start, space.walk_slots.stop),
        n_uniforms=space.n_uniforms,
        limits=[] if space.searches_count else columns.count_limits.tolist(),
        probabilities=table(padded, columns.probability),
        probability_spread=table(padded_spread, columns.probability),
        magnitudes=table(padded, columns.magnitude),
        magnitude_spread=table(padded_spread, columns.magnitude),
        counts=table(padded, columns.counts),
        count_spread=table(padded_spread, columns.counts),
        class_moves=class_moves,
    )
