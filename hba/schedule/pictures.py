"""Pictures of a schedule: its curves over epochs, and augmented copies of images.

`hba show` and `hba apply` save them as PNG files; the report of a run draws the same
panels.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from hba.data.config import display_name
from hba.data.masks import overlay
from hba.data.reading import printable
from hba.operations import Operation
from hba.operations.apply import fill_for
from hba.policy.draw import BatchSample, apply_operations
from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule
from hba.schedule.summary import (
    RegularizerSummary,
    band,
    copies_of,
    spaced,
    summarize_regularizers,
    used_operations,
)
from hba.tasks.segmentation import IGNORED
from hba.utils.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEWEST_COLUMNS = 3
MOST_COLUMNS = 5
MOST_POINTS = 100
"""Largest number of epochs in a curve; more would not be visible."""
COLORS = {"probability": "#1f5fa8", "magnitude": "#d1660f", "regularizer": "#0b6e4f"}
COPY_STYLES = ("-", "--", ":", "-.")
SINGLE = {1: "."}
"""Marker of a curve with a single epoch, which is no line."""
MOST_SIDE = 160
"""Largest side in pixels; larger images are resized."""
DOTS_PER_INCH = 110


class Panel(NamedTuple):
    """A plot over epochs. name: of an operation or a regularizer. ends: for each
    quantity, its kind, which is one of COLORS, and its first and last value. draw:
    draws the panel, without a title. stage: of an operation; empty if all are on the
    walk, and for a regularizer.
    """

    name: str
    ends: list[tuple[str, str]]
    draw: Callable[["Axes"], None]
    stage: str = ""


def panels(schedule: Schedule) -> list[Panel]:
    """The panels of a schedule, in the order of its columns.

    Each operation in use has one, or each if none is: probability (left axis) and
    magnitude in its unit (right axis), a line for each copy, with bands of one spread
    of logits on each side. Regularizers come last, in natural units.
    """
    epochs = spaced(schedule.epochs, MOST_POINTS)
    rows = dataclasses.replace(
        schedule, values=schedule.values[epochs], spread=schedule.spread[epochs]
    )
    x = np.array(epochs) + 1
    bands = band(rows) if rows.spread.any() else ()
    drawn_panels = []
    for operation in used_operations(schedule) or schedule.space.operations:
        ends = [
            (
                "probability",
                (
                    "probability"
                    f" {_from_to(copies_of(rows, operation, 'probability'), '.2f')}"
                ),
            )
        ]
        if operation.magnitude_range is not None:
            copies = copies_of(rows, operation, "magnitude")
            ends.append(
                ("magnitude", f"{operation.unit or 'magnitude'} {_from_to(copies)}")
            )
        stage = operation.stage if rows.space.has_stages else ""
        drawn_panels.append(
            Panel(
                operation.name,
                ends,
                partial(_draw_operation, x, rows, bands, operation),
                stage,
            )
        )
    for summary in summarize_regularizers(rows):
        values = _from_to(np.array(summary.values)[:, None])
        words = f"{values} {summary.hyperparameter.unit or ''}".rstrip()
        drawn_panels.append(
            Panel(
                summary.hyperparameter.name,
                [("regularizer", words)],
                partial(_draw_regularizer, x, summary),
            )
        )
    return drawn_panels


def _from_to(copies: np.ndarray, form: str = ".3g") -> str:
    """The mean of copies (epochs, copies) in the first and the last epoch."""
    before, after = (format(copies[epoch].mean(), form) for epoch in (0, -1))
    return before if before == after else f"{before} → {after}"


def draw_schedule(schedule: Schedule, path: Path) -> None:
    """Draw all panels of a schedule into one PNG file."""
    from matplotlib.figure import Figure

    all_panels = panels(schedule)
    n_columns = max(FEWEST_COLUMNS, min(MOST_COLUMNS, len(all_panels)))
    n_rows = -(-len(all_panels) // n_columns)
    figure = Figure(figsize=(3.1 * n_columns, 2.2 * n_rows + 0.6), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, squeeze=False, sharex=True).flatten()
    for panel, place in zip(all_panels, axes, strict=False):
        place.set_title(
            panel.name + (f" ({panel.stage})" if panel.stage else ""), fontsize=10
        )
        panel.draw(place)
    for place in axes[len(all_panels) :]:
        place.axis("off")
    for place in axes[max(0, len(all_panels) - n_columns) : len(all_panels)]:
        place.tick_params(labelbottom=True)
    figure.supxlabel("epoch")
    found_on = schedule.provenance.get("dataset")
    space = schedule.space
    parts = (
        ["probability (blue) and magnitude (orange) per epoch"]
        if space.operations
        else []
    )
    parts += ["one line per copy"] if space.walk else []
    parts += ["bands: one spread to either side"] if schedule.spread.any() else []
    parts += ["regularizers (green) per epoch"] if space.regularizers else []
    origin = (
        f" searched on {printable(display_name(str(found_on)))}" if found_on else ""
    )
    figure.suptitle(f"Schedule{origin}: {', '.join(parts)}")
    write_atomically(
        path, lambda file: figure.savefig(file, format="png", dpi=DOTS_PER_INCH)
    )


def _draw_operation(
    x: np.ndarray,
    rows: Schedule,
    bands: Sequence[Schedule],
    operation: Operation,
    panel: "Axes",
) -> None:
    """Draw the panel of an operation. bands: schedules with the lower and the upper
    ends, or empty.
    """
    axes_of = {"probability": (panel, 0.0, 1.0)}
    if operation.magnitude_range is not None:
        low, high = sorted(operation.magnitude_range)
        axes_of["magnitude"] = (panel.twinx(), low, high)
    for quantity, (axes, low, high) in axes_of.items():
        margin = 0.02 * (high - low) or 0.5
        axes.set_ylim(low - margin, high + margin)
        axes.tick_params(axis="y", labelcolor=COLORS[quantity])
        if quantity == "magnitude":
            axes.set_ylabel(
                (operation.unit or "").replace(", ", ",\n"),
                color=COLORS[quantity],
                fontsize=8,
            )
        for below, above in zip(
            *(copies_of(end, operation, quantity).T for end in bands), strict=True
        ):
            axes.fill_between(
                x, below, above, color=COLORS[quantity], alpha=0.15, linewidth=0
            )
        for curve, style in zip(
            copies_of(rows, operation, quantity).T,
            itertools.cycle(COPY_STYLES),
            strict=False,
        ):
            axes.plot(
                x, curve, style, color=COLORS[quantity], marker=SINGLE.get(len(x))
            )


def _draw_regularizer(
    x: np.ndarray, summary: RegularizerSummary, panel: "Axes"
) -> None:
    hyperparameter = summary.hyperparameter
    margin = (
        0.0
        if hyperparameter.scale == "log"
        else 0.02 * (hyperparameter.high - hyperparameter.low)
    )
    if hyperparameter.scale == "log":
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter("{x:g}")
    panel.set_ylim(hyperparameter.low - margin, hyperparameter.high + margin)
    panel.set_ylabel(hyperparameter.unit or "", fontsize=8)
    panel.plot(
        x, summary.values, color=COLORS["regularizer"], marker=SINGLE.get(len(x))
    )


def draw_augmented(
    schedule: Schedule,
    images: Sequence[Tensor],
    path: Path,
    *,
    epoch: int,
    n_copies: int,
    seed: int,
) -> None:
    """Draw a grid into a PNG file. Each row shows an image, then augmented copies with
    the operations that made them.

    images: uint8 (3, H, W) each, of any size. epoch: counted from 0.
    """
    from matplotlib.figure import Figure

    height = 2.4 if schedule.space.has_stages else 1.95
    figure = Figure(
        figsize=(1.6 * (n_copies + 1), height * len(images) + 0.4), layout="constrained"
    )
    places = iter(figure.subplots(len(images), n_copies + 1, squeeze=False).flatten())
    rows = augmented_copies(schedule, images, epoch=epoch, n_copies=n_copies, seed=seed)
    for image, copies in zip(images, rows, strict=True):
        for copy, made_by in ((image / 255, "original"), *copies):
            place = next(places)
            place.imshow(shown(copy).permute(1, 2, 0).numpy(), interpolation="nearest")
            place.set_title(made_by, fontsize=7)
            place.axis("off")
    figure.suptitle(f"Policy of epoch {epoch + 1} of {schedule.epochs}", fontsize=10)
    write_atomically(
        path, lambda file: figure.savefig(file, format="png", dpi=DOTS_PER_INCH)
    )


def shown(image: Tensor) -> Tensor:
    """An image (C, H, W) in [0, 1] as uint8, at most MOST_SIDE pixels wide and high."""
    if max(image.shape) > MOST_SIDE:
        image = TF.resize(image, [MOST_SIDE], max_size=MOST_SIDE + 1).clamp(0, 1)
    return (image * 255).round().byte()


def augmented_copies(
    schedule: Schedule,
    images: Sequence[Tensor],
    *,
    epoch: int,
    n_copies: int,
    seed: int,
    masks: Sequence[Tensor] | None = None,
) -> Iterator[list[tuple[Tensor, str]]]:
    """For each image, copies (C, H, W), float in [0, 1], each with its operations, one
    per line, or `unchanged`.

    masks: uint8 (H, W) of each image; copies show their classes in colors.
    """
    generator = torch.Generator().manual_seed(seed)
    policy = schedule.without_regularizers().policy(epoch, mask_fill=IGNORED)
    for number, image in enumerate(images):
        batch = (image.float() / 255).expand(n_copies, *image.shape)
        draw = policy.draw(n_copies, generator)
        augmented = apply_operations(
            policy.space, draw, batch, fill_for(batch, schedule.fill)
        )
        if masks is not None:
            moved = policy.replay_masks(masks[number].expand(n_copies, -1, -1), draw)
            pairs = zip((255 * augmented).round().byte(), moved, strict=True)
            augmented = torch.stack([overlay(*pair) for pair in pairs]) / 255
        made_by = [
            described_draw(policy.space, draw, copy) or "unchanged"
            for copy in range(n_copies)
        ]
        yield [*zip(augmented, made_by, strict=True)]


def described_draw(space: SearchSpace, draw: BatchSample, index: int) -> str:
    """The operations that one image got, in order, one per line."""
    drawn = zip(
        draw.slots[index].tolist(), draw.magnitudes[index].tolist(), strict=True
    )
    used = [
        (space.slots[slot].operation, magnitude)
        for slot, magnitude in drawn
        if slot >= 0
    ]
    return "\n".join(
        operation.name
        if operation.magnitude_range is None
        else f"{operation.name} {magnitude:z.3g}"
        for operation, magnitude in used
    )
