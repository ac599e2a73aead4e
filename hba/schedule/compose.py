"""Policies composed of others: a recipe with the symmetries of a search, with one more
group of operations, or half as often.
"""

import dataclasses

import numpy as np

from hba.operations.operation import SYMMETRY, WALK
from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule
from hba.schedule.summary import used_operations


def joined(first: Schedule, second: Schedule) -> Schedule:
    """A policy with the operations of two.

    Where both have an operation, or both have operations on the walk, those of the
    second are applied. All else, such as the fill, is that of the first. Operations
    outside the walk that the first never applies are left out.

    Args:
        first: A schedule of any number of epochs.
        second: A schedule of one epoch.
    """
    has_walk = bool(second.space.walk)
    replaced = {operation.name for operation in second.space.operations}
    used = used_operations(first)
    kept = [
        operation
        for operation in first.space.operations
        if operation.name not in replaced
        and (not has_walk if operation.stage == WALK else operation in used)
    ]
    space = dataclasses.replace(
        second.space if has_walk else first.space,
        operations=(*kept, *second.space.operations),
        regularizers=first.space.regularizers,
        class_moves=second.space.class_moves or first.space.class_moves,
    )

    def rows(of_first: np.ndarray, of_second: np.ndarray) -> np.ndarray:
        column_of = {
            **dict(zip(first.space.names, of_first.T, strict=True)),
            **dict(zip(second.space.names, of_second.T, strict=True)),
        }
        return np.stack(
            [np.broadcast_to(column_of[name], first.epochs) for name in space.names],
            axis=1,
        )

    return dataclasses.replace(
        first,
        space=space,
        values=rows(first.values, second.values),
        spread=rows(first.spread, second.spread),
    )


def with_symmetries(recipe: Schedule, searched: Schedule) -> Schedule:
    """A recipe without symmetries of its own, with those of a search.

    Args:
        recipe: A schedule of any number of epochs.
        searched: The policy of the search, of which the last epoch counts.
    """
    chances = symmetries_of(searched)
    symmetries = SearchSpace(
        tuple(
            operation
            for operation in searched.space.symmetries
            if operation.name in chances
        ),
        count_probabilities=(1.0,),
        class_moves=searched.space.class_moves,
    )
    return joined(recipe, Schedule(symmetries, np.array([[*chances.values()]])))


def symmetries_of(schedule: Schedule) -> dict[str, float]:
    """The probabilities of the symmetries that a policy applies in its last epoch, by
    name.
    """
    last = dict(zip(schedule.space.names, schedule.values[-1].tolist(), strict=True))
    probabilities = {
        operation.name: last[f"{operation.name}.probability"]
        for operation in schedule.space.symmetries
    }
    return {name: chance for name, chance in probabilities.items() if chance > 0}


def halved(schedule: Schedule) -> Schedule:
    """A policy with half of the probabilities, except for those of symmetries.

    Of the walk, half of the images get no operation, and the others as many as before.
    """
    space = schedule.space
    shares = np.ones(space.n)
    for operation in space.operations:
        if operation.stage not in (SYMMETRY, WALK):
            shares[space.names.index(f"{operation.name}.probability")] = 0.5
    if space.walk and space.searches_count:
        shares[space.names.index("count.1.probability")] = 0.5
    elif space.walk:
        _, *numbers = (number / 2 for number in space.count_probabilities)
        counts = (1 - sum(numbers), *numbers)
        space = dataclasses.replace(space, count_probabilities=counts)
    return dataclasses.replace(schedule, space=space, values=schedule.values * shares)
