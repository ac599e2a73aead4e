"""A contest of whole trainings on validation images, which chooses the augmentation.

symbol  in the code     meaning
r, s    row, seed       an augmentation, and the seed of a training; seed s holds out
                        its own validation images
l_rsi   outcomes[r][s]  losses of validation images i after the training, calibrated as
                        in a race

    train with each row, on the images that the first seed does not hold out
    repeat
        train likewise with some changes of the best row: half as often, and with one
            more group of operations, unless this raised the loss of the row before it
    for each later seed
        drop the rows whose mean loss is clearly above the lowest, and all but a few
        train with each remaining row, on the images that the seed does not hold out
    choose the remaining row with the lowest mean loss, but one with more groups, or the
        search's policy, only if it is one standard error better than the best other one

Rows share weights, batches and images of a seed, so their differences are paired by
image. A row is clearly behind if its mean difference to the best is more than CLEARLY
standard errors, over images and, from the second seed on, over seeds. The mean of a
group of images counts as one image, because images of a group are alike. Races of this
kind go back to Maron and Moore (1994), "Hoeffding races".
"""

import contextlib
import json
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from hba.algorithms.race_measures import calibrated
from hba.config.evaluation import EvaluationConfig
from hba.data.groups import folds_of, means_of_groups
from hba.data.images import EvaluationData, LabelledImages, SearchData
from hba.errors import DataError, DivergedError, RunError
from hba.executors.executor import Executor
from hba.policy_choice.extent import N_FOLDS, N_VAL_FOLDS
from hba.policy_choice.rows import ALWAYS, is_searched
from hba.policy_evaluation.baselines import RowConfig
from hba.policy_evaluation.evaluation import shared_data, train_row
from hba.preprocessing import Preprocessing
from hba.results.answer import WITH
from hba.results.statistics import loss_difference
from hba.tasks import task_of
from hba.training.checkpoint import TrainCheckpoint
from hba.training.metrics import logits_of
from hba.utils.files import read_text, reason_of, write_text

CONTEST_NAME = "contest.json"
"""File with the results of the contest."""
CONTEST_FOLDER = "contest"
"""Folder of its trainings in progress."""
CLEARLY = (3.0, 2.0)
"""Standard errors by which a dropped row is behind: after one seed, whose luck they do
not include, and later.
"""
MOST_LEFT = (3, 3, 3)
"""Largest number of remaining rows after the first, the second, and each later seed."""
FIRST_SEED = 1_000
"""First seed of its trainings. The test uses others, so its weights and batches had no
influence on the choice.
"""
N_ENLARGED = 16
"""The number of images whose logits are enlarged at a time."""
DIGITS, DIVERGED = 4, 1e6
"""Decimals of the losses in the file, and the loss of a training that diverged."""


class Outcome(NamedTuple):
    """The result of a training. losses: of each validation image in nats, calibrated;
    means over each group of images. error: in per cent.
    """

    losses: tuple[float, ...]
    error: float


Losses = Mapping[str, Sequence[np.ndarray]]
"""For each row, losses of the validation images of each seed, (images,) each."""


@dataclass
class Contest:
    """Results of the trainings so far."""

    first_rows: tuple[str, ...]
    """The rows to begin with."""
    file: Path
    """Written after each training."""
    has_same_images: bool
    """Whether all seeds are measured on the same images."""
    outcomes: dict[str, dict[int, Outcome]] = field(default_factory=dict)
    """For each row, in order, the results by seed. Rows are added after the first seed
    of the rows to begin with.
    """

    @staticmethod
    def begun(
        rows: Sequence[str], file: Path, *, has_same_images: bool = False
    ) -> "Contest":
        """A new contest, or the one in the file, which may have more rows.

        Args:
            rows: The rows to begin with.
            file: The file.
            has_same_images: Whether all seeds are measured on the same images.

        Raises:
            RunError: If the file cannot be read.
        """
        stored: dict[str, dict[int, Outcome]] = {}
        if file.exists():
            try:
                for name, of_row in json.loads(read_text(file)).items():
                    stored[name] = {
                        int(seed): Outcome(tuple(losses), error)
                        for seed, (losses, error) in of_row.items()
                    }
            except Exception as error:
                raise RunError(
                    f"{file} cannot be read ({reason_of(error)}); remove it to start"
                    " the contest again"
                ) from None
        outcomes = {row: stored.get(row, {}) for row in dict.fromkeys([*rows, *stored])}
        return Contest(tuple(rows), file, has_same_images, outcomes)

    @property
    def rows(self) -> tuple[str, ...]:
        """All rows, also those that are still to train."""
        return tuple(self.outcomes)

    def enter(self, rows: Iterable[str]) -> None:
        """Add rows that are to train with the first seed. The file has them from the
        next training on.
        """
        for row in rows:
            self.outcomes.setdefault(row, {})

    def leave_out(self, rows: Sequence[str]) -> None:
        """Remove rows."""
        self.first_rows = tuple(row for row in self.first_rows if row not in rows)
        for row in rows:
            del self.outcomes[row]
        self._save()

    def add(self, row: str, seed: int, outcome: Outcome) -> None:
        """Store the result of a training."""
        self.outcomes[row][seed] = outcome
        self._save()

    def _save(self) -> None:
        write_text(self.file, json.dumps(self.outcomes) + "\n")

    def missing(self, seed: int) -> list[str]:
        """The rows that are still to train with this seed."""
        return [row for row in self.left(seed) if seed not in self.outcomes[row]]

    def left(self, n_seeds: int) -> list[str]:
        """The rows that remain after n_seeds seeds, the best first; all rows before the
        first seed has ended.
        """
        left = [*self.rows]
        if n_seeds:
            left = [row for row in left if 0 in self.outcomes[row]]
        for n in range(1, n_seeds + 1):
            left = survivors(
                self.losses(left, n),
                MOST_LEFT[min(n, len(MOST_LEFT)) - 1],
                self.has_same_images,
            )
        return left

    def losses(self, rows: Iterable[str], n_seeds: int) -> Losses:
        return {
            row: [np.array(self.outcomes[row][seed].losses) for seed in range(n_seeds)]
            for row in rows
        }

    @property
    def n_seeds(self) -> int:
        """Number of seeds that have ended: all remaining rows trained with them, in the
        first seed those to begin with.
        """
        if any(0 not in self.outcomes[row] for row in self.first_rows):
            return 0
        n = 1
        while not self.missing(n):
            n += 1
        return n

    @property
    def best(self) -> str | None:
        """The chosen row; None before the first seed has ended. Another row that is
        less than a standard error behind one that was searched wins against it.
        """
        if not self.n_seeds:
            return None
        first, *following = self.left(self.n_seeds)
        other = next((row for row in following if not is_searched(row)), None)
        if not is_searched(first) or other is None:
            return first
        losses = self.losses([first, other], self.n_seeds)
        mean, error = loss_difference(
            losses[other], losses[first], self.has_same_images
        )
        return first if mean > error else other

    def next_rows(self, changes_of: Callable[[str], Mapping[str, str]]) -> list[str]:
        """The rows to try after the first seed: changes of the row with the lowest
        loss, except for those that have raised the loss of a row before it. Changes
        that have lowered it come first.

        Args:
            changes_of: Maps a row to the names of rows with one more change, by change.

        Returns:
            New rows, the most promising first; empty after the second seed has begun.
        """
        if self.missing(0) or any(1 in of_row for of_row in self.outcomes.values()):
            return []
        means = {
            row: float(np.mean(of_row[0].losses))
            for row, of_row in self.outcomes.items()
        }
        best = min(means, key=lambda row: means[row])
        parts = best.split(WITH)
        rows_before = [WITH.join(parts[:n]) for n in range(1, len(parts))]
        differences = {
            change: means[changed] - means[row]
            for row in rows_before
            for change, changed in changes_of(row).items()
            if changed in means
        }

        def difference(change: str) -> float:
            """To the loss of the last row before that had it; 0 if it is unknown."""
            return differences.get(change, 0.0)

        rows = changes_of(best)
        return [
            rows[change]
            for change in sorted(rows, key=difference)
            if difference(change) <= 0 and rows[change] not in self.outcomes
        ]

    def table(self) -> list[dict[str, Any]]:
        """For each row, mean calibrated loss and error of each seed, and after how many
        seeds it was dropped.
        """
        ends = {
            row: n
            for n in range(self.n_seeds, 0, -1)
            for row in {*self.left(n - 1)} - {*self.left(n)}
        }
        return [
            {
                "name": row,
                "losses": {
                    str(seed): round(float(np.mean(outcome.losses)), DIGITS)
                    for seed, outcome in outcomes.items()
                },
                "errors": {
                    str(seed): outcome.error for seed, outcome in outcomes.items()
                },
                "dropped_after": ends.get(row),
            }
            for row, outcomes in self.outcomes.items()
        ]


def survivors(losses: Losses, most: int, has_same_images: bool = False) -> list[str]:
    """At most `most` rows that are not clearly behind, the lowest mean loss first. If
    all of them were searched, the best other one is left too.
    """
    order = sorted(losses, key=lambda row: float(np.concatenate([*losses[row]]).mean()))
    clearly = CLEARLY[len(losses[order[0]]) > 1]

    def is_close(row: str) -> bool:
        mean, error = loss_difference(losses[row], losses[order[0]], has_same_images)
        return row == order[0] or mean <= clearly * error

    close = [row for row in order if is_close(row)]
    left = close[:most]
    others = [row for row in close if not is_searched(row)]
    return left if {*left} & {*others} else [*left, *others[:1]]


class Entry(NamedTuple):
    """A training of the contest."""

    row: RowConfig
    seed: int
    held_out: Tensor | None
    """The indices of its validation images; None if they are separate."""
    groups: Tensor | None
    """The groups of its validation images, if they have any."""
    checkpoint: TrainCheckpoint

    @property
    def name(self) -> str:
        return f"the row {self.row.name}"


def contest_data(
    data: SearchData, *, trains_on_val: bool = True
) -> tuple[EvaluationData, Sequence[Tensor | None]]:
    """All labelled images, and for each seed in turn the indices of those that it holds
    out.

    Each seed holds out another one of N_FOLDS parts, stratified by class, in which
    groups stay together. Of images with validation images of their own, these alone are
    divided, into N_VAL_FOLDS parts, because they may be of other kinds, and a part of
    them is in the training, as in the test. If the test does not train on them, all are
    held out for all seeds: they become the `test` images of the result. Raises
    DataError for images that are streamed, and for a single group.
    """
    train = data.train
    val = data.val
    if not (isinstance(train, LabelledImages) and isinstance(val, LabelledImages)):
        raise DataError(
            "hba auto needs all images in memory; choose a smaller image_size or"
            " train_size"
        )
    if data.has_own_val and not trains_on_val:
        return EvaluationData(data.name, data.class_names, train, val), [None]
    groups = None
    if train.groups is not None and val.groups is not None:
        groups = torch.cat([train.groups, val.groups])
    images = LabelledImages(
        torch.cat([train.images, val.images]),
        torch.cat([train.labels, val.labels]),
        groups=groups,
    )
    divided = val if data.has_own_val else images
    groups = divided.groups
    labels = divided.labels.numpy()
    if groups is not None and len(groups.unique()) < 2:
        raise DataError(
            "a contest holds out some of the groups of the images, but there is only"
            " one; choose another --group"
        )
    parts = folds_of(
        task_of(labels).strata(labels),
        None if groups is None else groups.numpy(),
        N_VAL_FOLDS if data.has_own_val else N_FOLDS,
        seed=0,
    )
    if groups is not None:
        # Groups may be uneven. With few held out, trainings are most like the test's.
        parts.sort(key=len)
    first = len(images) - len(divided)
    folds = [first + torch.from_numpy(part) for part in parts]
    return EvaluationData(data.name, data.class_names, images, images), folds


def groups_held_out(data: EvaluationData, held_out: Tensor | None) -> Tensor | None:
    """The groups of the validation images of a training, as in Entry."""
    groups = data.test.opened().groups
    return groups if groups is None or held_out is None else groups[held_out]


def steps_of_training(
    config: EvaluationConfig, data: EvaluationData, held_out: Tensor | None
) -> int:
    """Number of steps of a training of the contest.

    Args:
        config: Settings of the training.
        data: All labelled images.
        held_out: The indices of those that it holds out; None if they are separate.
    """
    n_images = len(data.train) - (0 if held_out is None else len(held_out))
    return config.epochs * max(1, n_images // config.batch_size)


def train_seed(
    contest: Contest,
    seed: int,
    rows: Mapping[str, RowConfig],
    data: EvaluationData,
    held_out: Sequence[Tensor | None],
    executor: Executor,
    on_step: Callable[[], None],
    checkpoints: Path,
) -> Generator[tuple[str, Outcome]]:
    """Train the missing rows with this seed, and yield each result after storing it.

    Rows in ALWAYS come first, so that the others can be left out if the time is over.
    """
    entries = []
    for name in sorted(contest.missing(seed), key=lambda row: row not in ALWAYS):
        identity = (
            name,
            rows[name].definition,
            str(seed),
            data.train.fingerprint(),
            str(executor.n_threads),
        )
        checkpoint = TrainCheckpoint(checkpoints.absolute(), identity)
        places = held_out[seed % len(held_out)]
        groups = groups_held_out(data, places)
        entries.append(Entry(rows[name], FIRST_SEED + seed, places, groups, checkpoint))
    shared = shared_data(executor, data)
    with contextlib.closing(
        executor.run(train_and_compare, entries, shared, on_step)
    ) as finished:
        for number, outcome in finished:
            entry = entries[number]
            contest.add(entry.row.name, seed, outcome)
            entry.checkpoint.remove()
            yield entry.row.name, outcome


def train_and_compare(
    entry: Entry,
    data: EvaluationData,
    on_step: Callable[[], None],
    masks: Tensor | None = None,
) -> Outcome:
    """Train on the images that are not held out, and measure the others.

    A training that diverges gets losses so high that its row is dropped.

    Args:
        entry: The training.
        data: The images, on its device.
        on_step: Called after each step.
        masks: Larger masks of the others, uint8 (N, S, S), with which answers are
            compared instead of their own.
    """
    row, seed, held_out, groups, checkpoint = entry
    if held_out is not None:
        images: Any = data.train
        kept = torch.ones(len(images), dtype=torch.bool)
        kept[held_out] = False
        parts = [
            LabelledImages(images.images[places], images.labels[places])
            for places in (kept, held_out)
        ]
        data = EvaluationData(data.name, data.class_names, *parts)
    test = data.test.opened()
    try:
        trained = train_row(row, seed, checkpoint, data, on_step)
    except DivergedError:
        n_losses = len(test) if groups is None else len(groups.unique())
        return Outcome((DIVERGED,) * n_losses, 100.0)
    preprocessing = Preprocessing.of(
        data.train, row.config.baseline_augmentation(), row.config.colors_of_network()
    )
    logits, labels = logits_of(trained.network, test, preprocessing.measure)
    logits = calibrated(logits, labels)
    if masks is None:
        losses = task_of(labels).losses(logits, labels)
        error = trained.test.error_percent
    else:
        losses, error = enlarged_losses(logits, masks.to(logits.device))
    losses = means_of_groups(losses, groups).cpu()
    rounded = tuple(round(loss, DIGITS) for loss in losses.tolist())
    return Outcome(rounded, error)


def enlarged_losses(logits: Tensor, masks: Tensor) -> tuple[Tensor, float]:
    """The losses (N,) of logits (N, classes, H, W) that are enlarged to masks
    (N, S, S), and their error in per cent.
    """
    task = task_of(masks)
    losses, statistics = [], []
    for small, some_masks in zip(
        logits.split(N_ENLARGED), masks.split(N_ENLARGED), strict=True
    ):
        large = F.interpolate(small, some_masks.shape[-2:], mode="bilinear")
        losses.append(task.losses(large, some_masks))
        statistics.append(task.statistics(large, some_masks))
    error = 100 * float(task.error_of(torch.cat(statistics)))
    return torch.cat(losses), error
