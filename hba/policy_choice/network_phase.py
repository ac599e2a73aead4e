"""The first phase of a run: chooses the network, its image size and its epochs among
the candidates of the plan, as in networks.py.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hba.data.images import EvaluationData, LabelledImages
from hba.executors.ray_executor import executor_for
from hba.policy_choice import networks
from hba.policy_choice.contest import (
    CONTEST_NAME,
    DIGITS,
    FIRST_SEED,
    Contest,
    Entry,
    Outcome,
    groups_held_out,
    steps_of_training,
)
from hba.policy_choice.extent import N_FOLDS, Extent
from hba.policy_choice.images import ContestImages
from hba.policy_choice.record import Candidate
from hba.policy_choice.rows import RANDAUGMENT
from hba.policy_choice.run import SECONDS_OF_PHASE, AutoRun
from hba.policy_choice.settings import search_config, training_config
from hba.policy_evaluation.baselines import row_configs
from hba.policy_search.timing import (
    FEWEST_EPOCHS,
    TooSlow,
    fewer_epochs,
    rounds,
    share_that_fits,
)
from hba.policy_search.training_size import most_epochs
from hba.schedule.recipes import RECIPES
from hba.training.checkpoint import TrainCheckpoint
from hba.utils.devices import find_device
from hba.utils.text import counted

NAME = "network"
LARGEST_CHANGE = 1.2
"""Epochs change if the time of the trainings of networks allows that many times as
many, or as few.
"""
LINEAR_SHARE = 0.04
"""Largest share of the time for linear layers on frozen features."""


def trainings_of_networks(extent: Extent, n_jobs: int) -> float:
    """The time of the phase, in trainings."""
    if extent.networks == 1:
        return 0.0
    return extent.contest_share * rounds(extent.networks, n_jobs)


def choose_network(run: AutoRun) -> None:
    """Choose among the candidates by trainings with RandAugment, and take over the
    settings of the best.
    """
    candidates = run.record.candidates
    if not candidates:
        return
    numbers: Sequence[int] = range(len(candidates))
    outcomes = dict[int, Outcome]()
    try:
        has_linear = run.record.task.has_linear_layer
        can_measure = has_linear and networks.pretrained(candidates)
        if can_measure and not run.record.linear:
            _measure_linear_layers(run)
        numbers = networks.to_train(
            candidates, run.record.linear, run.record.extent.networks
        )
        names = "; ".join(candidates[number].name for number in numbers)
        run.callback.said(f"Networks on validation images: {names}")
        while missing := [
            number for number in numbers if run.record.candidates[number].loss is None
        ]:
            try:
                _train_candidates(run, missing, outcomes)
            except TooSlow as slow:
                outcomes.clear()
                _shorten_candidates(
                    run, slow.seconds / run.record.extent.contest_share, len(missing)
                )
    except KeyboardInterrupt:
        _take_network(run, numbers, outcomes)
        raise
    _take_network(run, numbers, outcomes)


def _measure_linear_layers(run: AutoRun) -> None:
    """Measure linear layers on frozen features."""
    known = networks.pretrained(run.record.candidates)

    def images_of(side: int) -> tuple[LabelledImages, networks.Folds, int]:
        data, folds = _images(run, {**known[0].settings, "image_size": side})
        images: Any = data.train
        # Images with a validation split of their own have no folds.
        parts = [
            torch.arange(len(images))[::N_FOLDS] if fold is None else fold
            for fold in folds
        ]
        return images, parts, len(data.class_names)

    run.note(
        linear=tuple(
            networks.linear_results(
                known,
                images_of,
                find_device(run.record.settings.get("device", "auto")),
                LINEAR_SHARE * run.record.budget_seconds,
            )
        )
    )
    best = run.record.best_linear
    assert best is not None
    run.callback.said(
        f"On validation images, {best.name} has {best.error_percent:.1f} % error"
        f" ({run.clock()})"
    )


def _images(run: AutoRun, of_candidate: Mapping[str, Any]) -> ContestImages:
    """The images for a candidate with these settings."""
    settings = {**run.record.settings, **of_candidate}
    return run.images.of_contest(
        search_config(run.record, settings),
        trains_on_val=settings.get("train_size") is None,
    )


def _train_candidates(
    run: AutoRun, numbers: Sequence[int], outcomes: dict[int, Outcome]
) -> None:
    """Train these candidates, and store what each has reached, also in `outcomes`.

    Raises TooSlow if they need fewer epochs.
    """
    record = run.record
    executor = executor_for(
        record.settings.get("device", "auto"), min(record.n_jobs, len(numbers)), None
    )
    entries = [_entry(run, record.candidates[number]) for number in numbers]
    configs = [entry.row.config for entry, _ in entries]
    n_steps = sum(
        steps_of_training(entry.row.config, images, entry.held_out)
        for entry, images in entries
    )
    pace = run.pace(
        len(numbers),
        n_steps,
        max(config.epochs for config in configs),
        run.trainings_after(NAME) / run.record.extent.contest_share,
    )
    on_step = run.progress.stepper(NAME, n_steps, pace=pace)
    masks = [
        _larger_masks(run, record.candidates[number], entry)
        for number, (entry, _) in zip(numbers, entries, strict=True)
    ]
    ended = networks.train_candidates(entries, masks, executor, on_step)
    with contextlib.closing(ended):
        for place, (outcome, seconds) in ended:
            number = numbers[place]
            outcomes[number] = outcome
            reached = {
                "loss": round(float(np.mean(outcome.losses)), DIGITS),
                "error_percent": outcome.error,
                "took": round(seconds, 1),
            }
            candidates = [*run.record.candidates]
            candidates[number] = candidates[number].model_copy(update=reached)
            run.note(candidates=tuple(candidates))


def _side(run: AutoRun, candidate: Candidate) -> int:
    """The side of its images in pixels."""
    return int({**run.record.settings, **candidate.settings}["image_size"])


def _larger_side(run: AutoRun, candidate: Candidate) -> int | None:
    """The side of the masks with which its answers are compared, those of the largest
    candidates: small masks have few details, and seem easier. None if they are those of
    its own images.
    """
    if not run.record.task.has_masks:
        return None
    largest = max(_side(run, other) for other in run.record.candidates)
    return largest if _side(run, candidate) < largest else None


def _larger_masks(run: AutoRun, candidate: Candidate, entry: Entry) -> Tensor | None:
    """The masks of the validation images at the larger side, if there is one."""
    side = _larger_side(run, candidate)
    if side is None:
        return None
    large, _ = _images(run, {**candidate.settings, "image_size": side})
    if entry.held_out is None:
        return large.test.opened().labels
    return large.train.labels[entry.held_out]


def _entry(run: AutoRun, candidate: Candidate) -> tuple[Entry, EvaluationData]:
    """The training of a candidate with RandAugment, and its images.

    It is the first of the contest, which may so use the training of the chosen network.
    """
    settings = {**run.record.settings, **candidate.settings}
    config = training_config(
        run, search_config(run.record, settings), settings, candidate.n_images
    )
    images, (held_out, *_) = _images(run, candidate.settings)
    schedule = RECIPES[RANDAUGMENT].make()
    (row,) = row_configs(
        {candidate.name: schedule}, schedule, config, None, config.network_start()
    )
    groups = groups_held_out(images, held_out)
    return Entry(row, FIRST_SEED, held_out, groups, TrainCheckpoint()), images


def _shorten_candidates(run: AutoRun, seconds: float, n_candidates: int) -> None:
    """Choose fewer epochs for all candidates.

    Args:
        run: The run.
        seconds: Seconds of a training of any of them.
        n_candidates: How many are still to train.
    """
    n_trainings = run.record.extent.contest_share * rounds(
        n_candidates, run.record.n_jobs
    ) + run.trainings_after(NAME)
    share = min(1.0, share_that_fits(n_trainings, seconds, run.seconds_for_trainings))
    shorter = list[Candidate]()
    for candidate in run.record.candidates:
        epochs = fewer_epochs(candidate.settings["epochs"], share)
        settings = {**candidate.settings, "epochs": epochs}
        shorter.append(
            candidate.model_copy(
                update={"settings": settings, "loss": None, "took": None}
            )
        )
    run.note(candidates=tuple(shorter), training_seconds=max(share * seconds, 1e-3))
    run.say_shortened(f"{100 * share:.0f} % of the epochs")


def _take_network(
    run: AutoRun, numbers: Sequence[int], outcomes: Mapping[int, Outcome]
) -> None:
    """Take over the settings of the best of these candidates.

    outcomes: of those that were trained by this process.
    """
    record = run.record
    best = networks.best_of(record.candidates, numbers, record.linear)
    candidate = record.candidates[best]
    epochs = int({**record.settings, **candidate.settings}["epochs"])
    fitting = epochs
    # Steps that were timed alone tell the time of a training only roughly.
    seconds = (
        candidate.seconds
        if candidate.took is None
        else candidate.took / run.record.extent.contest_share
    )
    if candidate.took is not None and "epochs" in candidate.settings:
        fitting = _fitting_epochs(run, candidate, epochs, seconds)
        seconds *= fitting / epochs
    is_measured_alike = _larger_side(run, candidate) is None
    if best in outcomes and fitting == epochs and is_measured_alike:
        # The contest need not repeat this training.
        contest = Contest.begun([RANDAUGMENT], run.folder / CONTEST_NAME)
        contest.add(RANDAUGMENT, 0, outcomes[best])
    run.images.forget()
    run.note(
        network=best,
        settings={**record.settings, **candidate.settings, "epochs": fitting},
        n_images=candidate.n_images,
        training_seconds=max(seconds, 1e-3),
        plan=(*record.plan, *candidate.reasons),
    )
    reached = "not compared"
    if candidate.error_percent is not None:
        reached = f"{candidate.error_percent:.1f} % validation error"
    run.callback.said(
        f"Network: {candidate.name}, {reached}; {counted(fitting, 'epoch')}"
        f" ({run.clock()})"
    )


def _fitting_epochs(
    run: AutoRun, candidate: Candidate, epochs: int, seconds: float
) -> int:
    """The epochs for which the remaining time suffices, if these are far too many or
    too few; else these.

    seconds: of a training of them.
    """
    n_jobs = run.record.n_jobs
    n_trainings = run.trainings_after(NAME) + run.record.extent.contest_share / n_jobs
    left = run.seconds_left
    if n_jobs > 1:
        left -= SECONDS_OF_PHASE * run.n_phases_after(NAME)
    share = share_that_fits(n_trainings, seconds, left)
    if 1 / LARGEST_CHANGE < share < LARGEST_CHANGE:
        return epochs
    settings = {**run.record.settings, **candidate.settings}
    longest = most_epochs(
        settings["model"], is_pretrained=bool(settings.get("pretrained"))
    )
    return max(FEWEST_EPOCHS, min(longest, round(share * epochs)))
