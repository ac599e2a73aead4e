"""Symmetries by class: which label an image has after a flip or a turn.

The mirror image of the traffic sign "keep right" is "keep left", that of "yield" is
"yield", and that of a number is no sign at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hba.errors import SettingsError
from hba.utils.text import first_of

NO_CLASS = -1
"""Stands for a label where moved images belong to no class."""
MOST_NAMES = 12
"""Number of classes that a sentence names."""
Labels = tuple[int, ...]
"""For each class, the label of its moved images."""


def name_of_move(operation: str, number: int, n_moves: int) -> str:
    """The name of a move, such as `QuarterTurn by 180 degrees`.

    Args:
        operation: Name of a symmetry.
        number: Of the move, from 0.
        n_moves: Number of its moves: 1, or the turns of a circle without the whole one.
    """
    if n_moves == 1:
        return operation
    return f"{operation} by {360 * (number + 1) // (n_moves + 1)} degrees"


@dataclass(frozen=True)
class ClassMoves:
    """The labels of images after symmetries, for those that do not keep every class.

    Attributes:
        class_names: In the order of the labels.
        labels: For each operation, by name, and each of its `n_moves` moves, the label
            of moved images of each class; NO_CLASS for classes whose images must not be
            moved.

    Raises:
        SettingsError: For labels that are no classes.
    """

    class_names: tuple[str, ...]
    labels: tuple[tuple[str, tuple[Labels, ...]], ...]

    def __post_init__(self) -> None:
        n_classes = len(self.class_names)
        for operation, moves in self.labels:
            for of_move in moves:
                are_classes = all(NO_CLASS <= label < n_classes for label in of_move)
                if len(of_move) != n_classes or not are_classes:
                    raise SettingsError(
                        f"the labels after {operation} must be {n_classes} numbers from"
                        f" {NO_CLASS} to {n_classes - 1}, got {list(of_move)}"
                    )

    @property
    def operations(self) -> tuple[str, ...]:
        """The names of the operations that do not keep every class."""
        return tuple(name for name, _ in self.labels)

    @staticmethod
    def from_names(
        class_names: tuple[str, ...],
        results: Mapping[str, Sequence[Mapping[str, str]]],
    ) -> ClassMoves:
        """The value for which `names` returns these results."""
        number = {name: label for label, name in enumerate(class_names)}
        for moves in results.values():
            for of_move in moves:
                unknown = {*of_move, *of_move.values()} - {*class_names}
                if unknown:
                    raise SettingsError(
                        "class moves must be between the classes, got"
                        f" {first_of(sorted(unknown))}"
                    )
        labels = {
            operation: tuple(
                tuple(
                    number[of_move[name]] if name in of_move else NO_CLASS
                    for name in class_names
                )
                for of_move in moves
            )
            for operation, moves in results.items()
        }
        return ClassMoves(class_names, tuple(labels.items()))

    def names(self) -> dict[str, list[dict[str, str]]]:
        """For each operation and each of its moves, the class of moved images by the
        class of the images, without classes that must not be moved.
        """
        return {
            operation: [
                {
                    name: self.class_names[label]
                    for name, label in zip(self.class_names, of_move, strict=True)
                    if label != NO_CLASS
                }
                for of_move in moves
            ]
            for operation, moves in self.labels
        }

    def sentences(self) -> list[str]:
        """For each move, which classes keep their label, and which exchange it."""
        sentences = []
        for operation, moves in self.names().items():
            for number, of_move in enumerate(moves):
                kept = [before for before, after in of_move.items() if before == after]
                exchanged = [
                    f"{before} and {after}"
                    for before, after in of_move.items()
                    if before < after and of_move.get(after) == before
                ]
                parts = []
                if kept:
                    parts.append(f"keeps {first_of(kept, MOST_NAMES)}")
                if exchanged:
                    parts.append(f"exchanges {first_of(exchanged, MOST_NAMES)}")
                if parts:
                    name = name_of_move(operation, number, len(moves))
                    sentences.append(
                        f"{name} {' and '.join(parts)}; images of other classes do not"
                        " get it."
                    )
        return sentences

    def without(self, *operations: str) -> ClassMoves | None:
        """The same without some operations; None if none is left."""
        kept = tuple(entry for entry in self.labels if entry[0] not in operations)
        return ClassMoves(self.class_names, kept) if kept else None

    def for_classes(self, class_names: tuple[str, ...]) -> ClassMoves:
        """The same moves for other data, whose classes are known by their names.

        Classes that these moves do not know are not moved.

        Raises:
            SettingsError: If they know no class of the data.
        """
        if class_names == self.class_names:
            return self
        if not {*class_names} & {*self.class_names}:
            raise SettingsError(
                "the policy moves images by class, so the data must have some of its"
                f" classes, {first_of(self.class_names)}, got {first_of(class_names)};"
                f" leave out {first_of(self.operations)} by"
                " schedule.without(...)"
            )
        kept = {
            operation: [
                {
                    before: after
                    for before, after in of_move.items()
                    if before in class_names and after in class_names
                }
                for of_move in moves
            ]
            for operation, moves in self.names().items()
        }
        return ClassMoves.from_names(class_names, kept)
