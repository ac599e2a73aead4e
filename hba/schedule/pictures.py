"""Pictures of a schedule: probability and magnitude over epochs, and augmented copies of images. PNG files."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hba.data.naming import shown_name
from hba.operations import Operation, fill_for
from hba.policy.draw import Draw, apply_operations
from hba.runtime.files import write_atomically
from hba.schedule.reach import numbers_applied
from hba.schedule.schedule import Schedule
from hba.schedule.summary import band, copies_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

N_COLUMNS = 5
PROBABILITY_COLOR = "#1f5fa8"
MAGNITUDE_COLOR = "#d1660f"
COPY_STYLES = ("-", "--", ":", "-.")
BAND_ALPHA = 0.15
NUMBERS_TITLE = "images by number of operations"
DOTS_PER_INCH = 110


def draw_schedule(schedule: Schedule, path: Path) -> None:
    """One panel per operation: probability (left axis) and magnitude in its unit (right axis) over epochs.

    Bands go one spread of logits to either side. Where K is searched, the last panel has the numbers of operations that
    images get.
    """
    from matplotlib.figure import Figure

    operations = schedule.space.operations
    n_panels = len(operations) + schedule.space.searches_count
    n_rows = -(-n_panels // N_COLUMNS)
    figure = Figure(figsize=(3.1 * N_COLUMNS, 2.2 * n_rows + 0.6), layout="constrained")
    panels = figure.subplots(n_rows, N_COLUMNS, squeeze=False, sharex=True).flatten()
    bands = band(schedule) if schedule.spread.any() else ()
    for panel, operation in zip(panels, operations, strict=False):
        _draw_operation(panel, schedule, bands, operation)
    if schedule.space.searches_count:
        _draw_numbers(panels[len(operations)], schedule)
    for panel in panels[n_panels:]:
        panel.axis("off")
    figure.supxlabel("epoch")
    figure.suptitle(_title(schedule))
    _save(figure, path)


def _draw_operation(panel: "Axes", schedule: Schedule, bands: Sequence[Schedule], operation: Operation) -> None:
    """bands: their lower and their upper ends, or none."""
    panel.set_title(operation.name, fontsize=10)
    panel.set_ylim(-0.02, 1.02)
    panel.tick_params(axis="y", labelcolor=PROBABILITY_COLOR)
    _draw_copies(panel, schedule, bands, operation, "probability", PROBABILITY_COLOR)
    if operation.magnitude_range is None:
        return
    low, high = sorted(operation.magnitude_range)
    right = panel.twinx()
    margin = 0.02 * (high - low) or 0.5
    right.set_ylim(low - margin, high + margin)
    right.tick_params(axis="y", labelcolor=MAGNITUDE_COLOR)
    right.set_ylabel(operation.unit or "", color=MAGNITUDE_COLOR, fontsize=8)
    _draw_copies(right, schedule, bands, operation, "magnitude", MAGNITUDE_COLOR)


def _draw_copies(
    panel: "Axes", schedule: Schedule, bands: Sequence[Schedule], operation: Operation, kind: str, color: str
) -> None:
    """A line for each copy, with its band."""
    epochs = np.arange(1, schedule.epochs + 1)
    for below, above in zip(*(copies_of(end, operation, kind).T for end in bands), strict=True):
        if schedule.epochs == 1:
            panel.vlines(epochs, below, above, color=color, alpha=BAND_ALPHA)
        else:
            panel.fill_between(epochs, below, above, color=color, alpha=BAND_ALPHA, linewidth=0)
    curves = copies_of(schedule, operation, kind).T
    for curve, style in zip(curves, itertools.cycle(COPY_STYLES), strict=False):
        panel.plot(epochs, curve, style, color=color, marker=_marker(schedule))


def _marker(schedule: Schedule) -> str | None:
    """A single epoch is no line."""
    return "." if schedule.epochs == 1 else None


def _draw_numbers(panel: "Axes", schedule: Schedule) -> None:
    """Shares of images that get 0, 1, 2, ... operations, over epochs."""
    epochs = np.arange(1, schedule.epochs + 1)
    shares = np.array([numbers_applied(schedule, epoch) for epoch in range(schedule.epochs)])
    panel.set_title(NUMBERS_TITLE, fontsize=10)
    panel.set_ylim(-0.02, 1.02)
    for number, (curve, style) in enumerate(zip(shares.T, itertools.cycle(COPY_STYLES), strict=False)):
        panel.plot(epochs, curve, style, color=f"C{number}", marker=_marker(schedule), label=str(number))
    panel.legend(fontsize=7, ncols=shares.shape[1], loc="upper center")


def _title(schedule: Schedule) -> str:
    found_on = schedule.provenance.get("dataset")
    origin = f" searched on {shown_name(str(found_on))}" if found_on else ""
    bands = ", bands: one spread to either side" if schedule.spread.any() else ""
    return f"Schedule{origin}: probability (blue) and magnitude (orange) per epoch, one line per copy{bands}"


def draw_augmented(
    schedule: Schedule, images: Sequence[Tensor], path: Path, *, epoch: int, n_copies: int, seed: int
) -> None:
    """A grid: a row per image, first as it is, then augmented copies with the operations that made them.

    images: uint8 (3, H, W) each, of any size. epoch: counted from 0.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.6 * (n_copies + 1), 1.95 * len(images) + 0.4), layout="constrained")
    panels = figure.subplots(len(images), n_copies + 1, squeeze=False)
    rows = augmented_copies(schedule, images, epoch=epoch, n_copies=n_copies, seed=seed)
    for row, image, copies in zip(panels, images, rows, strict=True):
        _draw_cell(row[0], image.float() / 255, "original")
        for cell, copy in zip(row[1:], copies, strict=True):
            _draw_cell(cell, copy.image, copy.made_by)
    figure.suptitle(f"Policy of epoch {epoch + 1} of {schedule.epochs}", fontsize=10)
    _save(figure, path)


class AugmentedCopy(NamedTuple):
    """image: float (C, H, W) in [0, 1]. made_by: the operations, a line each, as describe_draw has them."""

    image: Tensor
    made_by: str


def augmented_copies(
    schedule: Schedule, images: Sequence[Tensor], *, epoch: int, n_copies: int, seed: int
) -> Iterator[list[AugmentedCopy]]:
    """Of each image, as draw_augmented takes them, the copies that it shows."""
    generator = torch.Generator().manual_seed(seed)
    policy = schedule.policy(epoch)
    for image in images:
        batch = (image.float() / 255).expand(n_copies, *image.shape)
        draw = policy.draw(n_copies, generator)
        augmented = apply_operations(schedule.space, draw, batch, fill_for(batch, schedule.fill))
        yield [AugmentedCopy(augmented[copy], describe_draw(schedule, draw, copy)) for copy in range(n_copies)]


def describe_draw(schedule: Schedule, draw: Draw, index: int) -> str:
    """What one image got, an operation a line, in order; `unchanged` for nothing."""
    lines = []
    for slot, magnitude in zip(draw.slots[index].tolist(), draw.magnitudes[index].tolist(), strict=True):
        if slot >= 0:
            operation = schedule.space.slots[slot].operation
            # A negated 0 is 0.
            shown = "" if operation.magnitude_range is None else f" {magnitude + 0.0:.3g}"
            lines.append(f"{operation.name}{shown}")
    return "\n".join(lines) or "unchanged"


def _draw_cell(panel: "Axes", image: Tensor, caption: str) -> None:
    panel.imshow(image.permute(1, 2, 0).numpy(), vmin=0, vmax=1, interpolation="nearest")
    panel.set_title(caption, fontsize=7)
    panel.axis("off")


def _save(figure: "Figure", path: Path) -> None:
    write_atomically(path, lambda file: figure.savefig(file, format="png", dpi=DOTS_PER_INCH))
