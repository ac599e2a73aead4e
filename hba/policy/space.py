"""The search space: the hyperparameters of a policy, and the conversion between logits,
values and names.

    symbol        meaning                                                      shape
    lambda        logits, unconstrained                                        (..., n)
    values        probabilities in [0, 1] and magnitudes in natural units      (..., n)
    slot          one copy of an operation on the walk, or any other operation n_slots

value = low + (high - low) sigmoid(lambda) (paper, Appendix A); on a log scale, this
holds for the logarithms.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from hba.errors import SettingsError
from hba.operations import OPERATIONS, Operation
from hba.operations.drawing import DRAWINGS, FIXED
from hba.operations.operation import MIXING, STAGES, SYMMETRY, WALK
from hba.policy.class_moves import ClassMoves
from hba.regularization.regularizer import Hyperparameter
from hba.utils.tensors import device_constant
from hba.utils.text import first_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor

LARGEST_LOGIT = 3.0
"""Largest logit at the start, because the gradient vanishes at the end of a range."""


class Slot(NamedTuple):
    """One copy of an operation, counted from 0, and the columns of its values.
    magnitude is None without magnitude.

    number: index of the operation in the space. prefix: beginning of the names of its
    columns.
    """

    operation: Operation
    probability: int
    magnitude: int | None
    copy: int
    number: int
    prefix: str


@dataclass(frozen=True)
class SlotColumns:
    """The columns of each slot's values in a tensor (..., n); tensors of shape
    (n_slots,).

    operation has -1 as one more entry, for the slot -1, none. magnitude is n, one past
    the last column, for a slot without magnitude. drawing: index in DRAWINGS. identity:
    of the operation, 0 without one. count_limits (max_count,):
    probabilities that K is below 1, 2, ..., float32; K is how many of them a uniform
    number reaches. counts (max_count,): columns of the probabilities of one more
    operation; (0,) if they are not searched.
    """

    operation: Tensor
    probability: Tensor
    magnitude: Tensor
    drawing: Tensor
    identity: Tensor
    count_limits: Tensor
    counts: Tensor


@dataclass(frozen=True)
class SearchSpace:
    """The operations of a policy, each with a probability and, if it has one, a
    magnitude to search.

    operations: in the order of their stages. Those of the walk have `copies` slots
    each, and an image gets at most K of them. All others have one slot each, drawn
    independently. Those of the stage `mixing` act on batches.

    count_probabilities[k] is the probability that K, the limit of operations on an
    image, is k (PBA, Algorithm 1: 0, 1 or 2 with 0.2, 0.3 and 0.5). searches_count:
    also search K, starting at count_probabilities. `count.k.probability` is the
    probability that a K of at least k - 1 is at least k, so K can have any distribution
    over 0, ..., max_count.

    regularizers: hyperparameters tuned besides the operations, which may then be empty.
    Their columns come last.

    class_moves: the labels of images after symmetries that do not keep every class.
    None: all symmetries keep them.

    always: operations on single images outside the walk act on every image; their
    probabilities are 1, not searched.
    """

    operations: tuple[Operation, ...] = field(
        default_factory=lambda: tuple(OPERATIONS.values())
    )
    copies: int = 2
    count_probabilities: tuple[float, ...] = (0.2, 0.3, 0.5)
    searches_count: bool = False
    regularizers: tuple[Hyperparameter, ...] = ()
    always: bool = False
    class_moves: ClassMoves | None = None

    def __post_init__(self) -> None:
        in_order = sorted(
            self.operations, key=lambda operation: STAGES.index(operation.stage)
        )
        object.__setattr__(self, "operations", tuple(in_order))
        operations = [operation.name for operation in self.operations]
        counts = self.count_probabilities
        names = operations + [regularizer.name for regularizer in self.regularizers]
        if not names:
            raise SettingsError("operations must be at least one, got none")
        if len({*names}) < len(names):
            raise SettingsError(
                f"operations and regularizers must each be named once, got {names}"
            )
        if self.copies < 1:
            raise SettingsError(f"copies must be at least 1, got {self.copies}")
        # Comparisons with NaN are false.
        are_shares = all(0 <= share <= 1 for share in counts)
        if not (are_shares and abs(sum(counts) - 1) <= 1e-6):
            raise SettingsError(
                f"count_probabilities must be >= 0 and sum to 1, got {counts}"
            )
        most = len(self.walk) * self.copies
        if len(counts) > most + 1:
            raise SettingsError(
                f"count_probabilities must be for at most {most} slots, got {counts}"
            )
        if self.searches_count and (len(counts) < 2 or "count" in operations):
            raise SettingsError(
                "searching K needs count_probabilities beyond 0 and no operation"
                f" count, got {counts}"
            )
        self._check_class_moves()
        # Computed now, because torch.compile cannot enter the lock of a
        # cached_property; so no pickle depends on use.
        _ = (
            self.names,
            self.ranges,
            self.slots,
            self.n_of_policy,
            self.walk_slots,
            self.n_uniforms,
            self.steps,
            self.drawings,
        )

    def _check_class_moves(self) -> None:
        if self.class_moves is None:
            return
        n_moves = {operation.name: operation.n_moves for operation in self.symmetries}
        for name, moves in self.class_moves.labels:
            if n_moves.get(name) != len(moves):
                raise SettingsError(
                    "class_moves must have the labels for each move of symmetries of"
                    f" the space, got {len(moves)} for {name}"
                )

    def __repr__(self) -> str:
        """One line: the first operations, and the sizes."""
        names = [
            first_of([entry.name for entry in each])
            for each in (self.operations, self.regularizers)
            if each
        ]
        return (
            f"SearchSpace({' and '.join(names)}; copies={self.copies},"
            f" max_count={self.max_count}, n={self.n})"
        )

    @property
    def walk(self) -> tuple[Operation, ...]:
        """The operations of the walk, of which an image gets at most K."""
        return tuple(
            operation for operation in self.operations if operation.stage == WALK
        )

    @property
    def symmetries(self) -> tuple[Operation, ...]:
        """The flips and turns, which come first."""
        return tuple(
            operation for operation in self.operations if operation.stage == SYMMETRY
        )

    @property
    def mixing(self) -> tuple[Operation, ...]:
        """The operations on batches and their labels, such as Mixup."""
        return tuple(
            operation for operation in self.operations if operation.stage == MIXING
        )

    @property
    def on_images(self) -> tuple[Operation, ...]:
        """The operations on single images."""
        return tuple(
            operation for operation in self.operations if operation.stage != MIXING
        )

    @property
    def has_stages(self) -> bool:
        """Whether there are operations outside the walk."""
        return len(self.walk) < len(self.operations)

    @property
    def acts_on_images(self) -> bool:
        """Whether there are operations on single images."""
        return len(self.mixing) < len(self.operations)

    @property
    def functions(self) -> list[Any]:
        """Those of operations and regularizers, which may be yours."""
        from hba.regularization.groups import find_regularizer

        groups = {regularizer.group for regularizer in self.regularizers}
        of_operations = [operation.function for operation in self.operations]
        of_regularizers = [find_regularizer(name).function for name in groups]
        return [
            function
            for function in (*of_operations, *of_regularizers)
            if function is not None
        ]

    @functools.cached_property
    def walk_slots(self) -> slice:
        first = sum(
            STAGES.index(operation.stage) < STAGES.index(WALK)
            for operation in self.operations
        )
        return slice(first, first + len(self.walk) * self.copies)

    @functools.cached_property
    def steps(self) -> tuple[tuple[int, ...], ...]:
        """Numbers of the operations that can act in each step of a sample."""
        of_steps: list[tuple[int, ...]] = [(slot.number,) for slot in self.slots]
        walk = dict.fromkeys(slot.number for slot in self.slots[self.walk_slots])
        of_steps[self.walk_slots] = [tuple(walk)] * self.max_count
        return tuple(of_steps)

    def candidates(self, rows: Any) -> tuple[tuple[int, ...], ...]:
        """`steps` without operations whose probability is 0 in all rows (..., n), which
        must be on the host.
        """
        is_used = (rows > 0).reshape(-1, self.n).any(0).tolist()
        used = {slot.operation.name for slot in self.slots if is_used[slot.probability]}
        return tuple(
            tuple(number for number in step if self.operations[number].name in used)
            for step in self.steps
        )

    @functools.cached_property
    def drawings(self) -> tuple[str, ...]:
        """How the operations draw magnitudes, without FIXED."""
        used = {operation.drawing for operation in self.operations} - {FIXED}
        return tuple(drawing for drawing in DRAWINGS if drawing in used)

    @functools.cached_property
    def n_uniforms(self) -> tuple[int, int]:
        """How many random numbers to draw for a step of the walk, and for any other
        operation.
        """
        numbers = [operation.n_uniforms for operation in self.walk]
        other_numbers = [
            operation.n_uniforms
            for operation in self.operations
            if operation.stage != WALK
        ]
        return max([2, *numbers]), max([2, *other_numbers])

    @property
    def max_count(self) -> int:
        """The largest number of operations of the walk that one image can get."""
        return len(self.count_probabilities) - 1

    @property
    def n(self) -> int:
        """The number of hyperparameters."""
        return len(self.names)

    @functools.cached_property
    def n_of_policy(self) -> int:
        """The number of hyperparameters of operations and of K. Their columns come
        first.
        """
        return self.n - len(self.regularizers)

    @property
    def count_columns(self) -> slice:
        """The columns of the probabilities of one more operation; empty if K is not
        searched.
        """
        return slice(
            self.n_of_policy - (self.max_count if self.searches_count else 0),
            self.n_of_policy,
        )

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """`<Operation>.<copy>.<probability|magnitude>`, with a copy (from 1) only on
        the walk; then K; regularizers.
        """
        return tuple(self._columns)

    @functools.cached_property
    def ranges(self) -> tuple[tuple[float, float], ...]:
        """(low, high) per column: the values at logits of minus and plus infinity.
        Ranges of magnitudes may descend.
        """
        return tuple(self._columns.values())

    @functools.cached_property
    def _columns(self) -> dict[str, tuple[float, float]]:
        columns: dict[str, tuple[float, float]] = {}
        for operation in self.operations:
            for prefix in self.prefixes(operation):
                is_sure = self.always and operation.stage not in (WALK, MIXING)
                columns[f"{prefix}.probability"] = (1.0 if is_sure else 0.0, 1.0)
                if operation.magnitude_range is not None:
                    columns[f"{prefix}.magnitude"] = operation.magnitude_range
        if self.searches_count:
            columns |= {
                f"count.{k}.probability": (0.0, 1.0)
                for k in range(1, self.max_count + 1)
            }
        return columns | {
            regularizer.name: (regularizer.low, regularizer.high)
            for regularizer in self.regularizers
        }

    def prefixes(self, operation: Operation) -> tuple[str, ...]:
        """The beginning of the names of the operation's columns, for each copy."""
        if operation.stage != WALK:
            return (operation.name,)
        return tuple(f"{operation.name}.{copy}" for copy in range(1, self.copies + 1))

    def decode(self, logits: Tensor) -> Tensor:
        """Convert logits (..., n) to values (..., n) of the same dtype. Infinite logits
        give the exact end points.
        """
        low, high = self.bounds(logits.dtype, logits.device)
        scaled = self._log_bounds(logits.dtype, logits.device)
        if scaled is None:
            return low.lerp(high, logits.sigmoid())
        is_log, first, last = scaled
        places = first.lerp(last, logits.sigmoid())
        # The exponential of a rounded logarithm is not exactly the end point.
        return low.where(
            places <= first, high.where(places >= last, places.exp())
        ).where(is_log, places)

    def encode(self, values: Tensor) -> Tensor:
        """Convert values (..., n) to logits (..., n), the inverse of decode. An end
        point gives an infinite logit.

        A range of one value gives 0. Raises SettingsError for values outside their
        range.
        """
        low, high = self.bounds(values.dtype, values.device)
        inside = (values >= low.minimum(high)) & (values <= low.maximum(high))
        if not inside.all():
            column = int((~inside).reshape(-1, self.n).any(0).nonzero()[0])
            raise SettingsError(
                f"{self.names[column]} must lie in {sorted(self.ranges[column])}"
            )
        scaled = self._log_bounds(values.dtype, values.device)
        if scaled is not None:
            is_log, low, high = scaled
            values = values.log().where(is_log, values)
        return (values - low).div(high - low).masked_fill(high == low, 0.5).logit()

    def initial(self, fraction: float = 0.05) -> Tensor:
        """Logits (n,), float32, of a start: every value at (1 - fraction) low +
        fraction high.

        The paper's fraction is 0.05 (section 4, Appendix A). K, if it is searched,
        starts at count_probabilities, with LARGEST_LOGIT for infinite logits, so that
        they have a gradient. Regularizers start at their initial values.
        """
        import torch

        values = torch.full((self.n,), fraction)
        if self.searches_count:
            # Sums of the tails, because 1 minus a sum of rounded numbers may not be 0.
            at_least = [
                math.fsum(self.count_probabilities[k:])
                for k in range(self.max_count + 1)
            ]
            ratios = [
                after / before if before else 0.0
                for before, after in itertools.pairwise(at_least)
            ]
            values[self.count_columns] = torch.tensor(ratios)
        logits = values.logit()
        logits[self.count_columns].nan_to_num_(
            neginf=-LARGEST_LOGIT, posinf=LARGEST_LOGIT
        )
        logits[self.n_of_policy :] = torch.tensor(
            [regularizer.initial_logit for regularizer in self.regularizers]
        )
        return logits

    @functools.cached_property
    def slots(self) -> tuple[Slot, ...]:
        """All slots on images, in the order of the operations, with the copies of an
        operation next to each other.
        """
        column_of = {name: column for column, name in enumerate(self.names)}
        return tuple(
            Slot(
                operation,
                column_of[f"{prefix}.probability"],
                column_of.get(f"{prefix}.magnitude"),
                copy,
                number,
                prefix,
            )
            for number, operation in enumerate(self.operations)
            for copy, prefix in enumerate(self.prefixes(operation))
            if operation.stage != MIXING
        )

    @device_constant
    def bounds(self, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
        """The ends of the ranges, as tensors (n,)."""
        import torch

        low, high = torch.tensor(self.ranges, dtype=dtype, device=device).unbind(1)
        return low, high

    @device_constant
    def is_searched(self, device: torch.device) -> Tensor:
        """Which hyperparameters can move, bool (n,): all except those with a range of
        one value.
        """
        import torch

        return torch.tensor([low != high for low, high in self.ranges], device=device)

    @device_constant
    def _log_bounds(
        self, dtype: torch.dtype, device: torch.device
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        """Which columns have a log scale, bool (n,), and the ends of ranges on their
        scales; None if there are none.
        """
        import torch

        of_regularizers = [
            regularizer.scale == "log" for regularizer in self.regularizers
        ]
        if not any(of_regularizers):
            return None
        is_log = torch.tensor(
            [False] * self.n_of_policy + of_regularizers, device=device
        )
        low, high = self.bounds(dtype, device)
        return is_log, low.log().where(is_log, low), high.log().where(is_log, high)

    @device_constant
    def probability_columns(self, device: torch.device) -> Tensor:
        """Column indices of all probabilities, including those of K, on the device."""
        import torch

        of_policy = self.names[: self.n_of_policy]
        columns = [
            column
            for column, name in enumerate(of_policy)
            if name.endswith(".probability")
        ]
        return torch.tensor(columns, dtype=torch.long, device=device)

    @device_constant
    def class_results(self, device: torch.device) -> dict[int, Tensor]:
        """For each step of a sample that moves images by class, the labels of moved
        images, int64 (moves, classes), on the device.
        """
        import torch

        if self.class_moves is None:
            return {}
        step_of = {slot.operation.name: step for step, slot in enumerate(self.slots)}
        return {
            step_of[name]: torch.tensor(moves, dtype=torch.long, device=device)
            for name, moves in self.class_moves.labels
        }

    @device_constant
    def slot_columns(self, device: torch.device) -> SlotColumns:
        """Column indices of every slot's values, on the device."""
        import torch

        def columns(numbers: Iterable[int]) -> Tensor:
            return torch.tensor(list(numbers), dtype=torch.long, device=device)

        return SlotColumns(
            operation=columns((*(slot.number for slot in self.slots), -1)),
            probability=columns(slot.probability for slot in self.slots),
            magnitude=columns(
                self.n if slot.magnitude is None else slot.magnitude
                for slot in self.slots
            ),
            drawing=columns(
                DRAWINGS.index(slot.operation.drawing) for slot in self.slots
            ),
            identity=torch.tensor(
                [slot.operation.identity or 0.0 for slot in self.slots], device=device
            ),
            count_limits=torch.tensor(self.count_probabilities)
            .cumsum(0)[:-1]
            .to(device),
            counts=torch.arange(self.n, device=device)[self.count_columns],
        )
