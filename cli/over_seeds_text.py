"""What `hba search --seeds` and `hba show` print of searches that differ by their seed."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hba.report.findings import share
from hba.report.over_seeds import OperationOverSeeds, Over, OverSeeds
from hba.utils.text import counted, percent

from .terminal import table


def print_over_seeds(name: str, found: OverSeeds, printer: Console) -> None:
    """Tables of operations and regularizers in the last epoch, and what to take from them."""
    if found.operations:
        printer.print(_operations(name, found))
    if found.regularizers:
        printer.print(_regularizers(found))
    for sentence in found.sentences:
        printer.print(sentence)
    if found.val_error_percent is not None:
        each = found.val_error_percent
        printer.print(
            f"Validation error of the search networks: {percent(each.mean)}, standard deviation {percent(each.std)}. "
            "It is not that of trainings with the schedules."
        )


def described(found: OverSeeds) -> dict[str, Any]:
    """The same for programs."""
    return {
        "seeds": sorted(found.schedules),
        "operations": [
            {
                "name": one.name,
                "unit": one.unit,
                "share_of_images": one.share._asdict(),
                "probability": one.probability._asdict(),
                "probability_moved": one.probability_moved._asdict(),
                "magnitude": None if one.magnitude is None else one.magnitude._asdict(),
            }
            for one in found.operations
        ],
        "epochs": next(iter(found.schedules.values())).epochs,
        "left_out": found.left_out,
        "regularizers": {name: over._asdict() for name, over in found.regularizers.items()},
        "val_error_percent": None if found.val_error_percent is None else found.val_error_percent._asdict(),
        "agreement": found.agreement,
        "sentences": found.sentences,
    }


def _operations(name: str, found: OverSeeds) -> Table:
    title = f"{name}: {counted(len(found.schedules), 'search', 'searches')}, last epoch, mean +- standard deviation"
    made = table(("operation", "images", "prob.", "moved by, 95 % interval", "magn."), title)
    for one in found.operations:
        made.add_row(*map(Text, _cells(one)))
    return made


def _cells(one: OperationOverSeeds) -> tuple[str, ...]:
    low, high = one.probability_moved.interval
    moved = f"{one.probability_moved.mean:+.3f} ({low:+.3f} to {high:+.3f})"
    images = f"{share(one.share.mean)} +- {100 * one.share.std:.1f}"
    magnitude = "-" if one.magnitude is None else _around(one.magnitude)
    return one.name, images, _around(one.probability), moved, magnitude


def _regularizers(found: OverSeeds) -> Table:
    made = table(("regularizer", "last epoch", "each seed"), "Regularizers, mean +- standard deviation")
    for name, over in found.regularizers.items():
        made.add_row(*map(Text, (name, _around(over), "  ".join(f"{one:.3g}" for one in over.each))))
    return made


def _around(over: Over) -> str:
    return f"{over.mean:.3g} +- {over.std:.2g}"
