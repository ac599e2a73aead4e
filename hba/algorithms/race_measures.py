"""Measures of a race on validation images: calibrated losses, and how well a network
recognises moved images.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from hba.algorithms.problem import ImageProblem
from hba.operations import Operation
from hba.operations.operation import SYMMETRY
from hba.tasks import task_of
from hba.training.metrics import logits_of

TEMPERATURES = torch.logspace(-3, 3, 61, base=2.0)
"""Factors of logits that calibration tries."""
CLEARLY = 2.5
FEWEST_OF_CLASS = 5


def validated(
    problem: ImageProblem, network: nn.Module, move: Operation | None = None
) -> tuple[Tensor, Tensor]:
    """Logits (images, classes) and labels of all validation images.

    Args:
        problem: The problem of the search.
        network: The network.
        move: An operation to apply to the images first.
    """

    def prepare(images: Tensor) -> Tensor:
        return problem.preprocessing.measure(
            images if move is None else moved_by(move, images, problem.fill)
        )

    return logits_of(network, problem.data.val, prepare)


def moved_by(move: Operation, images: Tensor, fill: Tensor | None = None) -> Tensor:
    """Images after a symmetry; one that draws, such as a quarter turn, takes its values
    in turn.
    """
    places = (
        torch.arange(len(images) * move.n_uniforms, device=images.device) % 3 + 0.5
    ) / 3
    return move(images, fill=fill, position=places.view(len(images), move.n_uniforms))


def gaps(problem: ImageProblem, network: nn.Module) -> Tensor:
    """Gaps of the space's symmetries on validation images, as gaps_of returns them."""
    logits, labels = validated(problem, network)
    moves = [
        operation
        for operation in problem.space.operations
        if operation.stage == SYMMETRY
    ]
    return gaps_of(
        logits, labels, (validated(problem, network, move)[0] for move in moves)
    )


def gaps_of(logits: Tensor, labels: Tensor, moved: Iterable[Tensor]) -> Tensor:
    """The share of what a network has learned that moving images costs.

    If the network has learned nothing, the gaps are infinite. Means over classes count
    too, because a move that exchanges two of many classes, such as arrows to the left
    and to the right, costs little on average. docs/method.md, Symmetries, has all
    rules.

    Args:
        logits: Logits of the images (images, classes).
        labels: Labels of the images.
        moved: For each move, the logits of the moved images.

    Returns:
        Gap of each move and its standard error, (moves, 2).
    """
    task = task_of(labels)
    before = task.doubts(logits, labels)
    learned = (task.guessing_doubt(labels) - before.mean()).clamp(min=0)
    rows = before.new_zeros(0, 2)
    members = task.members(labels)
    for moved_logits in moved:
        cost = (task.doubts(moved_logits, labels) - before) / learned
        of_classes = [
            cost[of_class.bool()]
            for of_class in members
            if of_class.sum() >= FEWEST_OF_CLASS
        ]
        clear = [
            of_class.mean() - CLEARLY * of_class.std() / len(of_class) ** 0.5
            for of_class in of_classes
        ]
        gap = torch.stack([cost.mean(), *clear]).max()
        error = cost.std() / len(cost) ** 0.5
        rows = torch.cat([rows, torch.stack([gap, error])[None]])
    return rows.nan_to_num(torch.inf, torch.inf, torch.inf)


def calibration(logits: Tensor, labels: Tensor) -> Tensor:
    """The factor in TEMPERATURES by which logits have the lowest mean loss."""
    losses = torch.stack(
        [
            task_of(labels).losses(factor * logits, labels).mean()
            for factor in TEMPERATURES.to(logits)
        ]
    )
    return TEMPERATURES.to(logits)[losses.argmin()]


def calibrated(logits: Tensor, labels: Tensor) -> Tensor:
    """Logits times their calibration."""
    return logits * calibration(logits, labels)
