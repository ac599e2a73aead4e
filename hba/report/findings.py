"""What was found, in words that `hba search`, `hba show`, `hba apply` and reports share."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hba.algorithms.update_schedule import policy_steps_in
from hba.config.training import PLATEAU
from hba.data.labels import error_in_words
from hba.schedule.schedule import Schedule
from hba.schedule.summary import (
    Change,
    Reach,
    changes,
    is_of_text,
    key_epochs,
    numbers_applied,
    reach,
    start_of,
    summarize_regularizers,
)
from hba.utils.provenance import count_of, number_of
from hba.utils.text import counted, percent

N_CHANGES = 5
N_REGULARIZERS = 12
LEAST_CHANGE = 0.005
"""Of a range: what moves less would be printed as equal numbers."""


def evaluation_words(policy: Path, schedule: Schedule) -> list[str]:
    """The command that tells whether a schedule helps, in words. A training has no validation loss to wait for, as the
    search's learning rate had; a step schedule takes tenths too.
    """
    if is_of_text(schedule):
        return ["hba", "evaluate-text", str(policy)]
    settings = schedule.provenance.get("settings")
    waits = isinstance(settings, Mapping) and settings.get("learning_rate_schedule") == PLATEAU
    return ["hba", "evaluate", str(policy), *(["--learning-rate-schedule", "step"] if waits else [])]


ChangeRow = tuple[str, str, str, str]
CHANGE_HEADINGS: ChangeRow = ("", "probability", "magnitude", "share of images")


def change_lines(schedule: Schedule) -> list[str]:
    """What the search changed most, from where to where and by how many policy steps, and what it made of regularizers;
    empty where nothing moved.
    """
    title, moved = change_table(schedule)
    lines = [f"{title}:", *_aligned([CHANGE_HEADINGS, *moved])] if moved else []
    title, rows = regularizer_changes(schedule)
    # The first title has said already what they came from.
    title = title.partition(", ")[2].capitalize() if moved else title
    return [*lines, f"{title}:", *_aligned(rows)] if rows else lines


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns of text below a title."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def change_table(schedule: Schedule) -> tuple[str, list[ChangeRow]]:
    """The same as a title and rows under CHANGE_HEADINGS; no rows where nothing moved."""
    last = schedule.epochs - 1
    moved = [change for change in changes(schedule, last)[:N_CHANGES] if change.size >= LEAST_CHANGE]
    reached = reach(schedule, last)
    each = any(change.magnitude is not None and len(change.magnitude[0]) > 1 for change in moved)
    title = f"{_since(schedule)}, changed most{copies_note(schedule, each)}"
    return title, [_row(change, reached) for change in moved]


def _since(schedule: Schedule) -> str:
    """By what a schedule came from where the search began to its last epoch."""
    steps = policy_steps_in(schedule.provenance)
    known = start_of(schedule) is not None
    since = f"After {schedule.epochs} epochs" if known else f"From epoch 1 to epoch {schedule.epochs}"
    return since if steps is None else f"{since} and {counted(steps, 'policy step')}"


def regularizer_changes(schedule: Schedule) -> tuple[str, list[tuple[str, str]]]:
    """A title, and from where to where each regularizer came: `dropout.fc1`, `0.05 -> 0.31`. Of very many, those that
    moved most. No rows where none was tuned.
    """
    found = summarize_regularizers(schedule)
    farthest = sorted(found, key=lambda one: -one.size)[:N_REGULARIZERS]
    rows = [
        (one.hyperparameter.name, f"{one.began:.3g} -> {natural(one.values[-1], one.hyperparameter.unit)}")
        for one in found
        if one in farthest
    ]
    since = f"To epoch {schedule.epochs}" if start_of(schedule) is None else _since(schedule)
    most = "" if len(rows) == len(found) else f" (the {len(rows)} of {len(found)} that moved most)"
    return f"{since}, regularizers{most}", rows


def regularizer_table(schedule: Schedule) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Headings, and a row for each regularizer: where the search began, and its values at key epochs, with the unit, if
    any has one.
    """
    epochs, found = key_epochs(schedule), summarize_regularizers(schedule)
    has_units = any(one.hyperparameter.unit for one in found)
    rows = [
        (
            one.hyperparameter.name,
            f"{one.began:.3g}",
            *(f"{one.values[epoch]:.3g}" for epoch in epochs),
            *([one.hyperparameter.unit or ""] if has_units else []),
        )
        for one in found
    ]
    headings = ("regularizer", "began at", *(f"epoch {epoch + 1}" for epoch in epochs))
    return (*headings, "unit") if has_units else headings, rows


def whole_line(schedule: Schedule) -> str | None:
    """On regularizers that act as whole numbers; None where none does."""
    names = [one.name for one in schedule.space.regularizers if one.whole]
    return f"Rounded to whole numbers where they act: {', '.join(names)}." if names else None


def natural(value: float, unit: str | None) -> str:
    """`0.31`, `6.2 pixels`"""
    return f"{value:.3g} {unit}" if unit else f"{value:.3g}"


def reach_line(schedule: Schedule, epoch: int) -> str:
    """How many operations an image gets at an epoch (from 0), which no probability says."""
    most, reached = schedule.space.max_count, reach(schedule, epoch)
    return (
        f"An image gets at most {counted(most, 'operation')}, {reached.per_image:.2f} on average; "
        f"{100 * reached.unchanged:.0f} % of the images get none."
    )


def shares_line(schedule: Schedule, epoch: int) -> str:
    """`Share of images: ShearY 12.4 %, ...`: what each operation reaches at an epoch (from 0), the most first."""
    shares = sorted(reach(schedule, epoch).shares.items(), key=lambda item: -item[1])
    return f"Share of images: {', '.join(f'{name} {share(value)}' for name, value in shares)}"


def numbers_line(schedule: Schedule) -> str:
    """How many operations images get at the key epochs."""
    found = [
        f"{' / '.join(f'{100 * part:.0f}' for part in numbers_applied(schedule, epoch))} % in epoch {epoch + 1}"
        for epoch in key_epochs(schedule)
    ]
    numbers = " / ".join(map(str, range(schedule.space.max_count + 1)))
    return f"Operations per image are searched too; the shares of images that get {numbers}: {', '.join(found)}."


def spread_line(schedule: Schedule) -> str:
    """How far the numbers of images are from the rows', over all epochs; nothing of a kind that has no spread."""
    found = []
    for kind, words in (("magnitude", "magnitudes"), ("probability", "probabilities")):
        spread = schedule.spread[:, [name.endswith(kind) for name in schedule.space.names]]
        if spread.any():
            low, high = (f"{end:.3g}" for end in (spread.min(), spread.max()))
            found.append(f"{words} {low}" if low == high else f"{words} {low} to {high}")
    return (
        f"Spread: {', '.join(found)}. Every image draws numbers of its own around the schedule's; the spread is the "
        "standard deviation of their logits."
    )


def network_measured(provenance: Mapping[str, Any]) -> dict[int, float]:
    """Validation error in percent of the search network after its last epoch, by that epoch, counted from 1.

    Empty where the provenance, which may come from elsewhere, does not say it.
    """
    epoch = count_of(provenance.get("epochs_finished"), least=1)
    error = number_of(provenance.get("val_error_percent"), 0, 100)
    return {} if epoch is None or error is None else {epoch: error}


def error_told(provenance: Mapping[str, Any]) -> str | None:
    """What an error is, as a provenance tells it where that is not the share of wrong answers."""
    found = provenance.get("error")
    return found if isinstance(found, str) else None


def network_line(measured: Mapping[int, float], error: str | None = None) -> str:
    """`Validation error of the search network: ...`, and what that is not. measured: as network_measured has it. error:
    what an error is, as error_told has it.
    """
    errors = ", ".join(f"{percent(error)} after epoch {epoch}" for epoch, error in measured.items())
    name = f"Validation error{error_in_words(error)} of the search network"
    return f"{name}: {errors}. It is not that of a training with the schedule."


def copies_note(schedule: Schedule, each: bool) -> str:
    """What the numbers of an operation stand for, where it has several copies. each: some are told copy by copy."""
    copies = schedule.space.copies
    if copies == 1:
        return ""
    return f" (means over each operation's {copies} copies{', or one number for each copy' if each else ''})"


def share(value: float) -> str:
    """`12.4 %`"""
    return f"{100 * value:.1f} %"


def _row(change: Change, reached: Reach) -> ChangeRow:
    before, after = change.probability
    magnitude = "-"
    if change.magnitude is not None:
        unit = f" {change.operation.unit}" if change.operation.unit else ""
        magnitude = " -> ".join(", ".join(f"{copy:.3g}" for copy in copies) for copies in change.magnitude) + unit
    name = change.operation.name
    return name, f"{before:.2f} -> {after:.2f}", magnitude, share(reached.shares[name])
