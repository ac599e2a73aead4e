"""Schedule: one policy for each epoch, in natural units, with its provenance.
hba/schedule/file.py defines its file.
"""

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hba.errors import ScheduleError
from hba.operations.operation import COMMON_CHANNELS, WALK
from hba.policy.annotations import Pairs
from hba.policy.module import GRAY, Policy
from hba.policy.space import SearchSpace
from hba.schedule.file import parse, reading, written
from hba.schedule.mixing import BatchTransform
from hba.schedule.transform import PolicyTransform
from hba.utils.files import read_text, write_text
from hba.utils.settings import COLOR_RULE, is_color, whole_number
from hba.utils.tensors import usual_types
from hba.utils.text import first_of, unknown


@dataclass(frozen=True, eq=False)
class Schedule:
    """A policy for each epoch: values (epochs, n) in natural units, at the end of each
    epoch of the search.

    spread (epochs, n): every image draws its own hyperparameters, with logits from a
    normal distribution around the values with this standard deviation; 0 means the
    values themselves. You may give one number, one row (n,) or one column (epochs, 1)
    for all. Regularizers are the same for all images, so their spread is 0. fill: the
    colour, in [0, 1] for each channel, of pixels that geometric operations and Cutout
    uncover: the mean colour of the images of the search. provenance: JSON values about
    the origin of the schedule. is_stretched: whether `stretched` chose its length; not
    kept in files. Raises ScheduleError for values of a wrong shape, outside their range
    or not finite, and for a wrong spread.
    """

    space: SearchSpace
    values: np.ndarray
    fill: tuple[float, ...] = GRAY
    provenance: Mapping[str, Any] = field(default_factory=dict)
    is_stretched: bool = False
    spread: np.ndarray = field(default_factory=lambda: np.zeros(()))

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        n = self.space.n
        if values.ndim != 2 or len(values) == 0 or values.shape[1] != n:
            raise ScheduleError(
                f"values must be of shape (epochs, {n}) with at least one epoch, got"
                f" {values.shape}"
            )
        low, high = np.sort(np.array(self.space.ranges), axis=1).T
        for row, column in np.argwhere(~((values >= low) & (values <= high))).tolist():
            place = f"values[{row}][{column}] ({self.space.names[column]})"
            value = values[row, column]
            raise ScheduleError(
                f"{place} must lie in [{low[column]:g}, {high[column]:g}], got"
                f" {value:g}"
            )
        if not is_color(self.fill):
            raise ScheduleError(f"fill {COLOR_RULE}, got {list(self.fill)}")
        spread = _spread(self.space, self.spread, values)
        for name, array in (("values", values), ("spread", spread)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        object.__setattr__(self, "provenance", dict(self.provenance))
        # Only a search needs to know that a probability is fixed at 1.
        object.__setattr__(self, "space", dataclasses.replace(self.space, always=False))

    def __repr__(self) -> str:
        space = self.space
        tuned = (
            f", regularizers={len(space.regularizers)}" if space.regularizers else ""
        )
        return (
            f"Schedule(epochs={self.epochs}, operations={len(space.operations)}{tuned},"
            f" n={space.n})"
        )

    @property
    def epochs(self) -> int:
        return len(self.values)

    def values_at(self, position: float) -> np.ndarray:
        """Values (n,) at a position in [0, epochs - 1], with linear interpolation, of
        logarithms on a log scale.
        """
        return _on_scales(
            self.space, lambda rows: self._between(rows, position), self.values
        )

    def spread_at(self, position: float) -> np.ndarray:
        """Spread (n,) at a position in [0, epochs - 1], with linear interpolation."""
        return self._between(self.spread, position)

    def _between(self, rows: np.ndarray, position: float) -> np.ndarray:
        if not 0 <= position <= self.epochs - 1:
            raise ScheduleError(
                f"the position must lie in [0, {self.epochs - 1}], got {position}"
            )
        before = int(position)
        start = rows[before]
        end = rows[min(before + 1, self.epochs - 1)]
        # Rounding must not move a value beyond the end of its range.
        return np.clip(
            start + (end - start) * (position - before),
            np.minimum(start, end),
            np.maximum(start, end),
        )

    def position(self, fraction: float) -> float:
        """The position at a fraction in [0, 1] of the whole schedule."""
        if not 0 <= fraction <= 1:
            raise ScheduleError(
                f"the fraction of the training must lie in [0, 1], got {fraction}"
            )
        return fraction * (self.epochs - 1)

    def stretched(self, epochs: int) -> "Schedule":
        """The schedule over another number of epochs, interpolated linearly (paper, 4);
        the middle for a single one.
        """
        epochs = whole_number("epochs", epochs)
        if epochs < 1:
            raise ScheduleError(f"epochs must be at least 1, got {epochs}")
        fractions = np.linspace(0, 1, epochs) if epochs > 1 else np.array([0.5])
        positions = [self.position(fraction) for fraction in fractions]
        values = np.stack([self.values_at(position) for position in positions])
        spread = np.stack([self.spread_at(position) for position in positions])
        return dataclasses.replace(
            self, values=values, spread=spread, is_stretched=True
        )

    def with_spread(self, spread: float, *, probabilities: bool = True) -> "Schedule":
        """The same values with another spread, the same for all hyperparameters of the
        policy and all epochs.

        spread: standard deviation in logits, at least 0. probabilities: if False, only
        magnitudes have a spread, and all probabilities, including those of K, have
        none. Raises ScheduleError for a spread below 0.
        """
        row = np.full(self.space.n, spread)
        row[self.space.n_of_policy :] = 0.0
        if not probabilities:
            row[self.space.probability_columns(torch.device("cpu")).numpy()] = 0.0
        return dataclasses.replace(self, spread=row)

    def only(self, epoch: int) -> "Schedule":
        """A fixed policy: the schedule with only the policy of an epoch, counted from
        0.
        """
        row = slice(self._checked(epoch), epoch + 1)
        return self._fixed(
            self.values[row], self.spread[row], f"epoch {epoch + 1} of {self.epochs}"
        )

    def averaged(self) -> "Schedule":
        """A fixed policy: the mean of values and spread over all epochs; the geometric
        mean on a log scale.
        """
        values = _on_scales(self.space, _mean, self.values)
        return self._fixed(
            values, _mean(self.spread), f"the mean of {self.epochs} epochs"
        )

    def _fixed(self, values: np.ndarray, spread: np.ndarray, rows: str) -> "Schedule":
        """A schedule whose provenance names the epochs of this one it was made from."""
        return Schedule(
            self.space,
            values,
            self.fill,
            {**self.provenance, "rows": rows},
            spread=spread,
        )

    def policy(
        self,
        epoch: int,
        mask_fill: float = 0,
        *,
        graph: bool = False,
        compiled: bool = False,
    ) -> Policy:
        """The policy of an epoch, counted from 0. Like `transform`, it has only the
        operations.

        mask_fill: the value of pixels of masks that operations uncover.
        graph, compiled: as Policy takes them, for speed on a GPU.
        """
        epoch = self._checked(epoch)
        policy = self._operations_alone()
        with usual_types():
            values, spread = (
                torch.tensor(rows[epoch], dtype=torch.float32)
                for rows in (policy.values, policy.spread)
            )
            module = Policy(
                policy.space,
                values,
                self.fill,
                spread,
                mask_fill,
                graph=graph,
                compiled=compiled,
            )
        module.candidates = policy.space.candidates(policy.values)
        return module

    def regularization(self, epoch: int) -> dict[str, float]:
        """Values of the regularizers in an epoch, counted from 0, by name in natural
        units, for your own training loop: `dropout.<module>` is a module's rate,
        `weight_decay` the optimizer's. Rounded if whole; empty if none is tuned.
        """
        row = self.values[self._checked(epoch), self.space.n_of_policy :].tolist()
        tuned = zip(self.space.regularizers, row, strict=True)
        return {
            regularizer.name: float(round(value)) if regularizer.whole else value
            for regularizer, value in tuned
        }

    def without_regularizers(self) -> "Schedule":
        """The schedule with only the policy. Raises ScheduleError if it has no
        operations.
        """
        if not self.space.operations:
            raise ScheduleError(
                "the schedule has no operations; get its values by"
                " schedule.regularization(epoch)"
            )
        return self._columns(
            dataclasses.replace(self.space, regularizers=()),
            slice(self.space.n_of_policy),
        )

    def without_operations(self) -> "Schedule":
        """The schedule with the regularizers only; ScheduleError if it has none."""
        if not self.space.regularizers:
            raise ScheduleError(
                "the schedule has no regularizers; search for one with tune (--tune"
                " dropout, ...)"
            )
        space = SearchSpace(
            (), count_probabilities=(1.0,), regularizers=self.space.regularizers
        )
        return self._columns(space, slice(self.space.n_of_policy, None))

    def without(self, *names: str) -> "Schedule":
        """The schedule without some operations outside the walk, such as "Mixup";
        ScheduleError for other names.
        """
        removable = [
            operation.name
            for operation in self.space.operations
            if operation.stage != WALK
        ]
        for name in names:
            if name not in removable:
                raise ScheduleError(
                    unknown("operation outside the walk", name, removable)
                )
        return self._without(names)

    def for_channels(self, n_channels: int) -> "Schedule":
        """The schedule without operations that images of so many channels cannot get.

        On the walk, each other operation keeps its probability, so images get fewer
        operations on average.
        """
        if n_channels in COMMON_CHANNELS:
            return self
        return self._without(
            [row.name for row in self.space.operations if not row.any_channels]
        )

    def _without(self, names: Sequence[str]) -> "Schedule":
        operations = tuple(
            operation
            for operation in self.space.operations
            if operation.name not in names
        )
        kept = [
            column
            for column, name in enumerate(self.space.names)
            if name.partition(".")[0] not in names
        ]
        moves = self.space.class_moves
        space = dataclasses.replace(
            self.space,
            operations=operations,
            class_moves=None if moves is None else moves.without(*names),
        )
        return self._columns(space, kept)

    def _columns(self, space: SearchSpace, columns: slice | list[int]) -> "Schedule":
        return dataclasses.replace(
            self,
            space=space,
            values=self.values[:, columns],
            spread=self.spread[:, columns],
        )

    def _checked(self, epoch: int) -> int:
        epoch = whole_number("epoch", epoch)
        if not 0 <= epoch < self.epochs:
            raise ScheduleError(
                f"epoch must lie in [0, {self.epochs - 1}], got {epoch}"
            )
        return epoch

    def transform(
        self, mask_fill: float = 0, keypoint_pairs: Pairs = ()
    ) -> PolicyTransform:
        """The operations as a torchvision v2 transform; see PolicyTransform. Raises
        ScheduleError without operations.

        mask_fill: the value of pixels of masks that operations uncover. keypoint_pairs:
        numbers of keypoints that a mirror image exchanges. A warning names the
        regularizers; `schedule.without_regularizers().transform()` does not warn.
        """
        return PolicyTransform(self._operations_alone(), mask_fill, keypoint_pairs)

    def batch_transform(self, n_classes: int) -> BatchTransform:
        """Mixup and CutMix of the schedule, for batches of images and labels.
        n_classes: the number of classes.
        """
        return BatchTransform(self, n_classes)

    def _operations_alone(self) -> "Schedule":
        if not self.space.regularizers:
            return self
        policy = self.without_regularizers()
        names = first_of(
            [regularizer.name for regularizer in self.space.regularizers], 8
        )
        remedy = (
            "get their values by schedule.regularization(epoch);"
            " schedule.without_regularizers() does not warn"
        )
        warnings.warn(f"only operations are used, not {names}: {remedy}", stacklevel=3)
        return policy

    def text(self) -> str:
        """The content of its file: human-readable JSON."""
        return written(self.space, self.values, self.fill, self.provenance, self.spread)

    def save(self, path: str | Path) -> None:
        """Write the schedule to a file, atomically."""
        write_text(Path(path), self.text())

    @staticmethod
    def load(path: str | Path) -> "Schedule":
        """Read a schedule file. Raises ScheduleError, with the reason, if it breaks the
        format.
        """
        with reading(Path(path)):
            return Schedule(**parse(read_text(Path(path))))


def _on_scales(
    space: SearchSpace, function: Callable[[np.ndarray], np.ndarray], rows: np.ndarray
) -> np.ndarray:
    """Apply a function to rows (epochs, n), using logarithms on a log scale. Its
    results must lie between the rows.
    """
    columns = [
        column
        for column, regularizer in enumerate(space.regularizers, space.n_of_policy)
        if regularizer.scale == "log"
    ]
    result = function(rows)
    if columns:
        log_rows = rows[:, columns]
        result[..., columns] = np.clip(
            np.exp(function(np.log(log_rows))),
            log_rows.min(axis=0),
            log_rows.max(axis=0),
        )
    return result


def _mean(rows: np.ndarray) -> np.ndarray:
    """Mean of rows (epochs, n), as one row (1, n). Rounding must not move it beyond the
    end of a range.
    """
    return np.clip(rows.mean(axis=0), rows.min(axis=0), rows.max(axis=0))[None]


def _spread(space: SearchSpace, numbers: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The spread as an array of the shape of values (epochs, n), with 0 for
    regularizers.
    """
    try:
        spread = np.broadcast_to(
            np.asarray(numbers, dtype=np.float64), values.shape
        ).copy()
    except ValueError:
        raise ScheduleError(
            f"spread must be a number or of shape {values.shape}, got"
            f" {np.shape(numbers)}"
        ) from None
    if np.ndim(numbers) == 0 or np.shape(numbers)[-1] != space.n:
        # One number for all hyperparameters.
        spread[:, space.n_of_policy :] = 0
    if (
        not (np.isfinite(spread) & (spread >= 0)).all()
        or spread[:, space.n_of_policy :].any()
    ):
        raise ScheduleError(
            "spread must be finite, not below 0, and 0 for regularizers, the same for"
            " all images"
        )
    return spread
