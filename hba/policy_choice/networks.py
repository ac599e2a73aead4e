"""The choice of the network of a run, by measurement.

    for each pretrained network and image size: cross-validated error of a linear layer
        on frozen features
    train with RandAugment: random weights, and the pretrained choices with the lowest
        of these errors
    choose the lowest calibrated loss on validation images; with masks, on those of the
        largest candidates

All trainings take about the same time, so a choice is as good as what it reaches in
this time. Networks of random weights are trained whatever the linear layers say,
because these say nothing about them. Without augmentation, gentle trainings look better
than they are: strong ones gain more from it.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hba.data.images import EvaluationData, LabelledImages
from hba.errors import SettingsError
from hba.executors.executor import Executor, Results, Shared, Tensors
from hba.policy_choice.contest import Entry, Outcome, train_and_compare
from hba.policy_choice.linear import FrozenFeatures, cross_validated
from hba.policy_choice.record import Candidate, LinearResult
from hba.policy_evaluation.evaluation import data_of_tensors, shared_data
from hba.policy_search.training_size import PRETRAINED_SIDES
from hba.tasks import task_of

MOST_FOLDS = 2
"""Folds that are used, because each takes seconds."""
Folds = Sequence[Tensor]
ImagesOf = Callable[[int], tuple[LabelledImages, Folds, int]]
"""A function of the side in pixels: images, the indices of those in each fold, and the
number of classes.
"""


def linear_results(
    candidates: Sequence[Candidate],
    images_of: ImagesOf,
    device: torch.device,
    seconds: float,
) -> list[LinearResult]:
    """Errors of linear layers on the features of each pretrained network, from small
    images to large ones.

    Args:
        candidates: The networks to choose from.
        images_of: Reads the images of a side.
        device: The device.
        seconds: Larger sides than the candidates have are included as long as all of it
            takes about this many seconds.
    """
    results = list[LinearResult]()
    began = time.monotonic()
    models = dict.fromkeys(
        (candidate.settings["model"], candidate.settings["pretrained"])
        for candidate in pretrained(candidates)
    )
    for model, source in models:
        of_model = pretrained(candidates, model)
        sides = sorted({candidate.settings["image_size"] for candidate in of_model})
        larger_sides = [side for side in PRETRAINED_SIDES if side > sides[-1]]
        took = 0.0
        for side in [*sides, *larger_sides]:
            started = time.monotonic()
            if side > sides[-1] and started - began + 2 * took > seconds:
                break
            images, folds, n_classes = images_of(side)
            try:
                network = FrozenFeatures(model, source, side, device, images.n_channels)
            except SettingsError:
                if side <= sides[-1]:
                    raise
                # The network takes no larger images than those of the candidates.
                break
            features = network.of(images)
            scores, labels = cross_validated(
                features, images.labels, folds[:MOST_FOLDS], n_classes
            )
            took = time.monotonic() - started
            task = task_of(labels)
            result = LinearResult(
                model=model,
                source=source,
                side=side,
                error_percent=round(100 * float(task.error_share(scores, labels)), 2),
                guess_percent=round(100 * float(task.guessing_error(labels)), 2),
                seconds=round(took, 2),
            )
            results.append(result)
    return results


def pretrained(
    candidates: Sequence[Candidate], model: str | None = None
) -> list[Candidate]:
    """The candidates with pretrained weights, of all models or of one."""
    return [
        candidate
        for candidate in candidates
        if candidate.settings.get("pretrained")
        and model in (None, candidate.settings["model"])
    ]


def to_train(
    candidates: Sequence[Candidate], linear: Sequence[LinearResult], most: int
) -> list[int]:
    """Choose the candidates to train: random weights, and the pretrained ones with the
    lowest linear errors, or without any those of the largest images.

    Each network and size has a gentle training and a strong one, only the strong one if
    its features tell little. After the first of the best size comes the first of the
    second, then the second of the best, and so on.

    Args:
        candidates: The networks to choose from.
        linear: The linear layers of all pretrained ones; empty if labels are masks.
        most: How many to train.

    Returns:
        Their numbers among the candidates.
    """
    results = {(result.model, result.side): result for result in linear}
    random = [
        number
        for number, candidate in enumerate(candidates)
        if not candidate.settings.get("pretrained")
    ]
    of_place = dict[tuple[str, int], list[int]]()
    for number, candidate in enumerate(candidates):
        if number not in random:
            of_place.setdefault(
                (candidate.settings["model"], candidate.settings["image_size"]), []
            ).append(number)
    if linear:
        ordered = sorted(of_place, key=lambda place: results[place].error_percent)
    else:
        ordered = sorted(of_place, key=lambda place: -place[1])
    order = list[tuple[int, int, int]]()
    for rank, place in enumerate(ordered):
        is_far = bool(linear) and results[place].is_far
        ways = of_place[place][-1:] if is_far else of_place[place]
        order += [(rank + way, way, number) for way, number in enumerate(ways)]
    return [*random, *(number for *_, number in sorted(order))][:most]


def best_of(
    candidates: Sequence[Candidate],
    numbers: Sequence[int],
    linear: Sequence[LinearResult],
) -> int:
    """The best candidate: that with the lowest loss; if none was trained, one of
    pretrained weights whose features tell much.

    Args:
        candidates: The networks to choose from.
        numbers: Numbers of those that count.
        linear: The linear layers.

    Returns:
        Its number.
    """
    has_near = any(not result.is_far for result in linear)
    near = pretrained(candidates) if has_near else []

    def rank(candidate: Candidate) -> tuple[float, bool]:
        return (
            math.inf if candidate.loss is None else candidate.loss,
            candidate not in near,
        )

    return min(numbers, key=lambda number: rank(candidates[number]))


class Trial(NamedTuple):
    """A candidate's training, and the number of its images among the shared ones."""

    entry: Entry
    place: int
    device: torch.device
    masks: Tensor | None
    """Larger masks of the validation images, as train_and_compare takes them."""


def train_candidates(
    entries: Sequence[tuple[Entry, EvaluationData]],
    masks: Sequence[Tensor | None],
    executor: Executor,
    on_step: Callable[[], None],
) -> Results:
    """Train candidates, each on its own images.

    Args:
        entries: The training and the images of each candidate.
        masks: For each, the masks with which its answers are compared; None for those
            of its images.
        executor: Runs the trainings.
        on_step: Called after each step.

    Yields:
        The number, and the outcome and seconds, of each, as they end.
    """
    parts = [shared_data(executor, images) for _, images in entries]
    tensors = tuple(tensor for part in parts for tensor in part.tensors)
    shared = Shared([part.value for part in parts], tensors, lambda *both: both)
    trials = [
        Trial(entry, place, executor.device, masks[place])
        for place, (entry, _) in enumerate(entries)
    ]
    return executor.run(_train_candidate, trials, shared, on_step)


def _train_candidate(
    trial: Trial, shared: tuple[Sequence[Any], Tensors], on_step: Callable[[], None]
) -> tuple[Outcome, float]:
    began = time.monotonic()
    values, tensors = shared
    data = values[trial.place]
    if tensors:
        first = 4 * trial.place
        data = data_of_tensors(data, tensors[first : first + 4])
    outcome = train_and_compare(
        trial.entry, data.to(trial.device), on_step, trial.masks
    )
    return outcome, time.monotonic() - began
