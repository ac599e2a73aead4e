"""Measures of a race: calibrated losses, and how well a network recognises moved
images.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from hba.algorithms.problem import ImageProblem
from hba.algorithms.race_findings import is_symmetry
from hba.data.groups import folds_of, means_of_groups
from hba.data.images import Images
from hba.operations import Operation
from hba.policy.class_moves import NO_CLASS, ClassMoves
from hba.policy.space import SearchSpace
from hba.tasks import task_of
from hba.tasks.task import ImageTask
from hba.training.metrics import logits_of
from hba.utils.seeding import derived_seed, generator_for

TEMPERATURES = torch.logspace(-3, 3, 61, base=2.0)
"""Factors of logits that calibration tries."""
CLEARLY = 2.5
FEWEST_OF_CLASS = 5
HELD_OUT_SHARE = 0.25
"""Share of the training images of each class that the first leg holds out."""
LEAST_KNOWN = 0.5
"""Smallest mean probability of its own class with which a network knows a class."""
DEVIATION_OF_FEW = 0.3
"""Standard deviation of the cost of N_FEW more images, which the standard error of a
class counts too, because few images may all cost the same by chance.
"""
N_FEW = 2


@dataclass(frozen=True)
class SymmetryTest:
    """How well a network recognises moved images, for the symmetries of a space.

    Attributes:
        gaps: For each symmetry the gap, as gaps_of returns it, and its standard error,
            (symmetries, 2).
        class_labels: For each move of a symmetry, and each class, the label of moved
            images; NO_CLASS where it is not shown, int64 (moves, classes).
    """

    gaps: Tensor
    class_labels: Tensor

    @staticmethod
    def before(space: SearchSpace, n_classes: int) -> "SymmetryTest":
        """Before the test, no symmetry holds."""
        n_moves = sum(operation.n_moves for operation in space.symmetries)
        return SymmetryTest(
            torch.full((len(space.symmetries), 2), torch.inf),
            torch.full((n_moves, n_classes), NO_CLASS),
        )

    def chosen(self, space: SearchSpace) -> list[str]:
        """Names of the symmetries that hold, for all classes or for some."""
        return [
            operation.name
            for operation, holds, labels in self._by_symmetry(space)
            if holds or bool((labels != NO_CLASS).any())
        ]

    def class_moves(
        self, space: SearchSpace, class_names: tuple[str, ...]
    ) -> ClassMoves | None:
        """The symmetries that hold only for some classes; None if there are none."""
        of_some = tuple(
            (operation.name, tuple(map(tuple, labels.tolist())))
            for operation, holds, labels in self._by_symmetry(space)
            if not holds and bool((labels != NO_CLASS).any())
        )
        return ClassMoves(class_names, of_some) if of_some else None

    def _by_symmetry(
        self, space: SearchSpace
    ) -> Iterator[tuple[Operation, bool, Tensor]]:
        """Each symmetry, whether it holds for all classes, and its part of
        class_labels.
        """
        n_moves = [operation.n_moves for operation in space.symmetries]
        labels = self.class_labels.split(n_moves) if n_moves else ()
        holds = [is_symmetry(*gap) for gap in self.gaps.tolist()]
        return zip(space.symmetries, holds, labels, strict=True)


class Answers(NamedTuple):
    """Logits of images, and the labels that are right: masks move with their images."""

    logits: Tensor
    labels: Tensor


def validated(problem: ImageProblem, network: nn.Module) -> tuple[Tensor, Tensor]:
    """Logits and labels of all validation images."""
    return logits_of(network, problem.data.val, problem.preprocessing.measure)


def held_out(problem: ImageProblem) -> Tensor:
    """Indices of the training images that the first leg holds out, of each class
    HELD_OUT_SHARE, ascending; of images in groups, about as many, of whole groups.
    """
    labels = problem.data.train.labels.cpu()
    groups = problem.data.train.groups
    strata_of_labels = task_of(labels).strata(labels.numpy())
    if groups is not None:
        if len(groups.unique()) < 2:
            return torch.zeros(0, dtype=torch.int64)
        n_folds = round(1 / HELD_OUT_SHARE)
        # scikit-learn takes seeds of 32 bits.
        seed = derived_seed(problem.config.seed, "groups held out") % 2**32
        folds = folds_of(strata_of_labels, groups.numpy(), n_folds, seed)
        return torch.from_numpy(folds[0]).sort().values
    generator = generator_for(
        problem.config.seed, "images held out", torch.device("cpu")
    )
    order = torch.randperm(len(labels), generator=generator)
    strata = torch.from_numpy(strata_of_labels)[order]
    parts = [order[strata == stratum] for stratum in strata.unique()]
    chosen = [part[: int(HELD_OUT_SHARE * len(part))] for part in parts]
    return torch.cat(chosen).sort().values


def new_images(problem: ImageProblem, places: Tensor) -> list[tuple[Images, Tensor]]:
    """Images that the first leg has not seen, and the indices of those that count.

    These are the training images that were held out, and the validation images unless
    they may be of another kind. Classes with fewer than four images have none to hold
    out; if all are so small, the validation images have to do.

    Args:
        problem: The problem of the search.
        places: Indices of the training images that were held out.
    """
    train, val = problem.data.train, problem.data.val
    parts = list[tuple[Images, Tensor]]()
    if len(places):
        parts.append((train, places))
    if not problem.data.has_own_val or not parts:
        parts.append((val, torch.arange(len(val))))
    return parts


def tested_symmetries(
    problem: ImageProblem, network: nn.Module, places: Tensor
) -> SymmetryTest:
    """Test the symmetries of the space by images that the network has not seen.

    Args:
        problem: The problem of the search.
        network: A network that was trained without symmetries.
        places: Indices of the training images that it has not seen.
    """
    task = problem.task
    parts = new_images(problem, places)
    of_parts = [
        images.groups[indices] for images, indices in parts if images.groups is not None
    ]
    groups = torch.cat(of_parts) if of_parts else None

    def outputs(operation: Operation | None, uniform: float = 0.0) -> Answers:
        def moved(images: Tensor, fill: Tensor) -> Tensor:
            if operation is None:
                return images
            position = images.new_full((len(images), operation.n_uniforms), uniform)
            return operation(images, fill=fill, position=position)

        def prepare(images: Tensor) -> Tensor:
            return problem.preprocessing.measure(moved(images, problem.fill))

        all_logits, all_labels = [], []
        for images, indices in parts:
            logits, _ = logits_of(network, images, prepare, indices)
            labels = images.labels[indices.to(images.device)]
            if task.has_masks:
                planes = labels[:, None] / 255
                labels = (255 * moved(planes, planes.new_ones(1))).round().byte()[:, 0]
            all_logits.append(task.thinned(logits))
            all_labels.append(task.thinned(labels))
        return Answers(torch.cat(all_logits), torch.cat(all_labels))

    unmoved = outputs(None)
    moved = [
        [
            outputs(operation, (move + 0.5) / operation.n_moves)
            for move in range(operation.n_moves)
        ]
        for operation in problem.space.symmetries
    ]
    n_classes = unmoved.logits.shape[1]
    by_class = [torch.full((0, n_classes), NO_CLASS, device=unmoved.logits.device)]
    for of_moves in moved:
        _, results = class_gaps_of(*unmoved, [logits for logits, _ in of_moves])
        by_class.append(results)
    return SymmetryTest(gaps_of(unmoved, moved, groups), torch.cat(by_class))


def learned_by_image(task: ImageTask, doubts: Tensor, labels: Tensor) -> Tensor:
    """How much less a network doubts about each image than one that knows only how
    common each class is, (N,).
    """
    return task.guessing_doubts(labels) - doubts


def gaps_of(
    unmoved: Answers, moved: Sequence[Sequence[Answers]], groups: Tensor | None = None
) -> Tensor:
    """The share of what a network has learned that moving images costs.

    If the network has learned nothing, the gaps are infinite. Means over classes count
    too, because a move that exchanges two of many classes, such as arrows to the left
    and to the right, costs little on average. What a class loses is a share of what was
    learned about it, or about all if this is more. docs/method.md, Symmetries, has all
    rules.

    Args:
        unmoved: Of the images.
        moved: For each symmetry, those of the images after each of its moves.
        groups: The group of each image (N,), which then counts as one image.

    Returns:
        Gap of each symmetry and its standard error, (symmetries, 2). The error is that
        of a ratio of two means over the same images (Cochran 1977, Sampling
        Techniques, chapter 6).
    """
    labels = unmoved.labels
    task = task_of(labels)
    before = task.doubts(*unmoved)
    learned_of_images = means_of_groups(learned_by_image(task, before, labels), groups)
    learned = learned_of_images.mean().clamp(min=0)
    rows = before.new_zeros(0, 2)
    guesses = task.guessing_class_doubts(labels)
    n_classes = guesses.shape[1]
    classes_before = task.class_doubts(*unmoved)[:, :n_classes]
    learned_of_classes = means_of_groups(guesses - classes_before, groups)
    most_learned = learned_of_classes.nanmean(dim=0).fmax(learned)
    for of_moves in moved:
        after = torch.stack([task.doubts(*of_move) for of_move in of_moves])
        cost = means_of_groups(after.mean(dim=0) - before, groups)
        of_classes = torch.stack([task.class_doubts(*of_move) for of_move in of_moves])
        classes_after = of_classes.mean(dim=0)[:, :n_classes]
        costs = means_of_groups(classes_after - classes_before, groups) / most_learned
        by_class = [column[~column.isnan()] for column in costs.T]
        clear = [
            of_class.mean() - CLEARLY * of_class.std() / len(of_class) ** 0.5
            for of_class in by_class
            if len(of_class) >= FEWEST_OF_CLASS
        ]
        gap = torch.stack([cost.mean() / learned, *clear]).max()
        rest = cost - gap * learned_of_images
        error = rest.std() / learned / len(rest) ** 0.5
        rows = torch.cat([rows, torch.stack([gap, error])[None]])
    return rows.nan_to_num(torch.inf, torch.inf, torch.inf)


def class_gaps_of(
    logits: Tensor, labels: Tensor, moved: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Which class the moved images of each class belong to, and what this costs.

    A class keeps its label if its moved images are most likely of this class, or
    exchanges it with another one if those of both are most likely of the other. The
    gap is that of gaps_of for these labels and images, and must be one of a symmetry
    (is_symmetry). A move and its inverse must have the same result, because images of a
    kind that a network does not know may look like any class.

    Args:
        logits: Logits of the images (images, classes).
        labels: Labels of the images; one class for each image.
        moved: Logits of the images after each move of a symmetry. The inverses of the
            moves are these moves in reverse order.

    Returns:
        Gap of each move and class, and its standard error, (moves, classes, 2),
        infinite where no class is likely; the label of the moved images, NO_CLASS where
        it is not shown, (moves, classes).
    """
    n_classes = logits.shape[1]
    gaps = torch.full((len(moved), n_classes, 2), torch.inf, device=logits.device)
    results = torch.full((len(moved), n_classes), NO_CLASS, device=logits.device)
    task = task_of(labels)
    if not task.has_one_answer:
        return gaps, results
    before = task.doubts(logits, labels)
    learned = learned_by_image(task, before, labels).mean().clamp(min=0)
    few = N_FEW * DEVIATION_OF_FEW**2
    for move, of_move in enumerate(moved):
        probabilities = task.probabilities(of_move)
        sums = probabilities.new_zeros(n_classes, n_classes)
        sums.index_add_(0, labels, probabilities)
        likeliest = sums.argmax(dim=1)
        costs = (task.doubts(of_move, likeliest[labels]) - before) / learned
        for first, second in enumerate(likeliest.tolist()):
            doubts = [before[labels == label] for label in {first, second}]
            has_images = all(len(of_class) for of_class in doubts)
            if int(likeliest[second]) != first or not has_images:
                continue
            cost = costs[(labels == first) | (labels == second)]
            squares = (cost - cost.mean()).square().sum() + few
            error = (squares / (len(cost) - 1 + N_FEW) / len(cost)).sqrt()
            gaps[move, first] = torch.stack([cost.mean(), error])
            is_known = all(1 - of_class.mean() >= LEAST_KNOWN for of_class in doubts)
            if is_known and is_symmetry(*gaps[move, first].tolist()):
                results[move, first] = second
    results = results.where(results == results.flip(0), NO_CLASS)
    return gaps.nan_to_num(torch.inf, torch.inf, torch.inf), results


def calibration(logits: Tensor, labels: Tensor) -> Tensor:
    """The factor in TEMPERATURES by which logits have the lowest mean loss; 1 if the
    task has no such factor.
    """
    task = task_of(labels)
    if not task.can_calibrate:
        return logits.new_ones(())
    logits, labels = task.thinned(logits), task.thinned(labels)
    losses = torch.stack(
        [
            task.losses(factor * logits, labels).mean()
            for factor in TEMPERATURES.to(logits)
        ]
    )
    return TEMPERATURES.to(logits)[losses.argmin()]


def calibrated(logits: Tensor, labels: Tensor) -> Tensor:
    """Logits times their calibration."""
    return logits * calibration(logits, labels)
