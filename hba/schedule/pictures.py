"""Pictures of a schedule: probability and magnitude over epochs, and augmented copies of images. PNG files."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hba.data.config import display_name
from hba.operations import Operation, fill_for
from hba.policy.draw import BatchSample, apply_operations
from hba.policy.space import SearchSpace
from hba.regularization.regularization import Regularization
from hba.schedule.schedule import Schedule
from hba.schedule.summary import (
    RegularizerSummary,
    band,
    copies_of,
    numbers_applied,
    of_one_range,
    on_pixels,
    summarize_regularizers,
)
from hba.utils.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

N_COLUMNS = 5
FEWEST_COLUMNS = 3
PROBABILITY_COLOR = "#1f5fa8"
MAGNITUDE_COLOR = "#d1660f"
REGULARIZER_COLOR = "#0b6e4f"
COPY_STYLES = ("-", "--", ":", "-.")
BAND_ALPHA = 0.15
NUMBERS_TITLE = "images by number of operations"
DOTS_PER_INCH = 110


def draw_schedule(schedule: Schedule, path: Path) -> None:
    """One panel per operation: probability (left axis) and magnitude in its unit (right axis) over epochs.

    Bands go one spread of logits to either side. Where K is searched, a panel has the numbers of operations that images
    get. Regularizers come last, in natural units, those of a group that have one range in one panel.
    """
    from matplotlib.figure import Figure

    operations, regularizers = schedule.space.operations, of_one_range(summarize_regularizers(schedule))
    n_of_policy = len(operations) + schedule.space.searches_count
    n_panels = n_of_policy + len(regularizers)
    n_columns = N_COLUMNS if operations else max(FEWEST_COLUMNS, min(N_COLUMNS, n_panels))
    n_rows = -(-n_panels // n_columns)
    figure = Figure(figsize=(3.1 * n_columns, 2.2 * n_rows + 0.6), layout="constrained")
    panels = figure.subplots(n_rows, n_columns, squeeze=False, sharex=True).flatten()
    bands = band(schedule) if schedule.spread.any() else ()
    for panel, operation in zip(panels, operations, strict=False):
        _draw_operation(panel, schedule, bands, operation)
    if schedule.space.searches_count:
        _draw_numbers(panels[len(operations)], schedule)
    for panel, together in zip(panels[n_of_policy:], regularizers, strict=False):
        _draw_regularizers(panel, schedule, together)
    for panel in panels[n_panels:]:
        panel.axis("off")
    figure.supxlabel("epoch")
    figure.suptitle(_title(schedule))
    save_figure(figure, path)


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


def _draw_regularizers(panel: "Axes", schedule: Schedule, together: Sequence[RegularizerSummary]) -> None:
    """A line for each of these, which have one range."""
    epochs, first = np.arange(1, schedule.epochs + 1), together[0].hyperparameter
    panel.set_title(first.name if len(together) == 1 else first.group, fontsize=10)
    if first.scale == "log":
        panel.set_yscale("log")
        panel.set_ylim(first.low, first.high)
    else:
        margin = 0.02 * (first.high - first.low)
        panel.set_ylim(first.low - margin, first.high + margin)
    panel.set_ylabel(first.unit or "", fontsize=8)
    # Shades tell apart more lines than styles do.
    shades = np.linspace(1, 0.35, len(together))
    for one, shade, style in zip(together, shades, itertools.cycle(COPY_STYLES), strict=False):
        name = one.hyperparameter.own_name
        panel.plot(
            epochs, one.values, style, color=REGULARIZER_COLOR, alpha=shade, marker=_marker(schedule), label=name
        )
    if len(together) > 1:
        panel.legend(fontsize=6 if len(together) > 4 else 7, ncols=1 + len(together) // 6)


def _title(schedule: Schedule) -> str:
    found_on, space = schedule.provenance.get("dataset"), schedule.space
    origin = f" searched on {display_name(str(found_on))}" if found_on else ""
    policy = ["probability (blue) and magnitude (orange) per epoch, one line per copy"] if space.operations else []
    bands = ["bands: one spread to either side"] if schedule.spread.any() else []
    tuned = [f"regularizers{' (green)' if space.operations else ''} per epoch"] if space.regularizers else []
    return f"Schedule{origin}: {', '.join([*policy, *bands, *tuned])}"


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
    save_figure(figure, path)


class AugmentedCopy(NamedTuple):
    """image: float (C, H, W) in [0, 1]. made_by: the operations, a line each, as describe_draw has them."""

    image: Tensor
    made_by: str


def augmented_copies(
    schedule: Schedule, images: Sequence[Tensor], *, epoch: int, n_copies: int, seed: int
) -> Iterator[list[AugmentedCopy]]:
    """Of each image, as draw_augmented takes them, the copies that it shows: by operations, then by the regularizers
    that act on pixels.
    """
    generator, space = torch.Generator().manual_seed(seed), schedule.space
    policy = schedule.without_regularizers().policy(epoch) if space.operations else None
    further, row = on_pixels(space), torch.tensor(schedule.values[epoch], dtype=torch.float32)
    acts = Regularization(space.regularizers, space.n_of_policy)
    for image in images:
        batch = (image.float() / 255).expand(n_copies, *image.shape)
        fill, draw = fill_for(batch, schedule.fill), None
        if policy is not None:
            draw = policy.draw(n_copies, generator)
            batch = apply_operations(policy.space, draw, batch, fill)
        augmented = acts.on_pixels(batch, row, generator, fill)
        yield [AugmentedCopy(augmented[copy], describe_draw(schedule, draw, copy, further)) for copy in range(n_copies)]


def is_seen(space: SearchSpace) -> bool:
    """Whether anything of a schedule changes pixels, so that augmented copies show something."""
    return bool(space.operations or on_pixels(space))


def lines_below(space: SearchSpace) -> int:
    """The most lines that describe_draw has for an image."""
    return max(1, space.max_count + len(on_pixels(space)))


def describe_draw(schedule: Schedule, draw: BatchSample | None, index: int, further: Sequence[str] = ()) -> str:
    """What one image got, an operation a line, in order; `unchanged` for nothing. further: what all images get."""
    lines = [] if draw is None else _operations_drawn(schedule, draw, index)
    return "\n".join([*lines, *further]) or "unchanged"


def _operations_drawn(schedule: Schedule, draw: BatchSample, index: int) -> list[str]:
    lines = []
    for slot, magnitude in zip(draw.slots[index].tolist(), draw.magnitudes[index].tolist(), strict=True):
        if slot >= 0:
            operation = schedule.space.slots[slot].operation
            # A negated 0 is 0.
            shown = "" if operation.magnitude_range is None else f" {magnitude + 0.0:.3g}"
            lines.append(f"{operation.name}{shown}")
    return lines


def _draw_cell(panel: "Axes", image: Tensor, caption: str) -> None:
    panel.imshow(image.permute(1, 2, 0).numpy(), vmin=0, vmax=1, interpolation="nearest")
    panel.set_title(caption, fontsize=7)
    panel.axis("off")


def save_figure(figure: "Figure", path: Path) -> None:
    """As a PNG, whole or not at all."""
    write_atomically(path, lambda file: figure.savefig(file, format="png", dpi=DOTS_PER_INCH))
