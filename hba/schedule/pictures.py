"""Pictures of a schedule: its curves over epochs, panel by panel, and augmented copies of images.

`hba show` and `hba apply` save them as PNG files; a run's report draws the same panels one by one.
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
from hba.operations import Operation
from hba.operations.apply import fill_for
from hba.policy.draw import BatchSample, apply_operations
from hba.policy.space import SearchSpace
from hba.regularization.groups import Regularization
from hba.schedule.schedule import Schedule
from hba.schedule.summary import (
    RegularizerSummary,
    band,
    copies_of,
    on_pixels,
    spaced,
    summarize_regularizers,
)
from hba.utils.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEWEST_COLUMNS, MOST_COLUMNS = 3, 5
MOST_POINTS = 100
"""Epochs at which a curve is drawn; more cannot be seen."""
PROBABILITY_COLOR = "#1f5fa8"
MAGNITUDE_COLOR = "#d1660f"
REGULARIZER_COLOR = "#0b6e4f"
COPY_STYLES = ("-", "--", ":", "-.")
SINGLE = {1: "."}
"""The marker of a curve of a single epoch, which is no line."""
BAND_ALPHA = 0.15
MOST_SIDE = 160
"""In pixels; larger images are shown smaller."""
DOTS_PER_INCH = 110


class Panel(NamedTuple):
    """One plot over epochs. name: of an operation, a regularizer or a group of them. ends: for each quantity its kind,
    which is probability, magnitude or regularizer, and its first and last value. draw: draws it, without title.
    """

    name: str
    ends: list[tuple[str, str]]
    draw: Callable[["Axes"], None]


def panels(schedule: Schedule) -> list[Panel]:
    """The panels of a schedule, in the order of its columns.

    Each operation has one: probability (left axis) and magnitude in its unit (right axis), a line for each copy, with
    bands of one spread of logits to either side. Regularizers come last, in natural units, those of a group that have
    one range together.
    """
    epochs = spaced(schedule.epochs, MOST_POINTS)
    rows = dataclasses.replace(schedule, values=schedule.values[epochs], spread=schedule.spread[epochs])
    x = np.array(epochs) + 1
    bands = band(rows) if rows.spread.any() else ()
    found = []
    for operation in rows.space.operations:
        kinds = ["probability"] if operation.magnitude_range is None else ["probability", "magnitude"]
        means = {kind: copies_of(rows, operation, kind).mean(axis=1) for kind in kinds}
        ends = [(kind, f"{operation.unit or kind} {_from_to(mean)}") for kind, mean in means.items()]
        ends[0] = ("probability", f"probability {_from_to(means['probability'], '.2f')}")
        found.append(Panel(operation.name, ends, partial(_draw_operation, x, rows, bands, operation)))
    by_range: dict[tuple[object, ...], list[RegularizerSummary]] = {}
    for summary in summarize_regularizers(rows):
        one = summary.hyperparameter
        by_range.setdefault((one.group, one.low, one.high, one.scale, one.unit), []).append(summary)
    for together in by_range.values():
        first = together[0].hyperparameter
        ends = [
            (
                "regularizer",
                f"{one.hyperparameter.own_name} {_from_to(one.values)} {one.hyperparameter.unit or ''}".strip(),
            )
            for one in together
        ]
        name = first.name if len(together) == 1 else first.group
        found.append(Panel(name, ends, partial(_draw_regularizers, x, together)))
    return found


def _from_to(values: Sequence[float] | np.ndarray, form: str = ".3g") -> str:
    before, after = format(values[0], form), format(values[-1], form)
    return before if before == after else f"{before} → {after}"


def draw_schedule(schedule: Schedule, path: Path) -> None:
    """All panels in one picture."""
    from matplotlib.figure import Figure

    found = panels(schedule)
    n_columns = MOST_COLUMNS if schedule.space.operations else max(FEWEST_COLUMNS, min(MOST_COLUMNS, len(found)))
    n_rows = -(-len(found) // n_columns)
    figure = Figure(figsize=(3.1 * n_columns, 2.2 * n_rows + 0.6), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, squeeze=False, sharex=True).flatten()
    for panel, place in zip(found, axes, strict=False):
        place.set_title(panel.name, fontsize=10)
        panel.draw(place)
    for place in axes[len(found) :]:
        place.axis("off")
    figure.supxlabel("epoch")
    found_on, space = schedule.provenance.get("dataset"), schedule.space
    parts = ["probability (blue) and magnitude (orange) per epoch, one line per copy"] if space.operations else []
    parts += ["bands: one spread to either side"] if schedule.spread.any() else []
    parts += ["regularizers (green) per epoch"] if space.regularizers else []
    origin = f" searched on {display_name(str(found_on))}" if found_on else ""
    figure.suptitle(f"Schedule{origin}: {', '.join(parts)}")
    _save(figure, path)


def _draw_operation(
    x: np.ndarray, rows: Schedule, bands: Sequence[Schedule], operation: Operation, panel: "Axes"
) -> None:
    """bands: the schedules at their lower and their upper ends, or none."""
    panel.set_ylim(-0.02, 1.02)
    panel.tick_params(axis="y", labelcolor=PROBABILITY_COLOR)
    _draw_copies(x, rows, bands, operation, "probability", panel)
    if operation.magnitude_range is None:
        return
    low, high = sorted(operation.magnitude_range)
    right = panel.twinx()
    margin = 0.02 * (high - low) or 0.5
    right.set_ylim(low - margin, high + margin)
    right.tick_params(axis="y", labelcolor=MAGNITUDE_COLOR)
    right.set_ylabel(operation.unit or "", color=MAGNITUDE_COLOR, fontsize=8)
    _draw_copies(x, rows, bands, operation, "magnitude", right)


def _draw_copies(
    x: np.ndarray, rows: Schedule, bands: Sequence[Schedule], operation: Operation, kind: str, panel: "Axes"
) -> None:
    """A line for each copy, with its band."""
    color = PROBABILITY_COLOR if kind == "probability" else MAGNITUDE_COLOR
    for below, above in zip(*(copies_of(end, operation, kind).T for end in bands), strict=True):
        panel.fill_between(x, below, above, color=color, alpha=BAND_ALPHA, linewidth=0)
    for curve, style in zip(copies_of(rows, operation, kind).T, itertools.cycle(COPY_STYLES), strict=False):
        panel.plot(x, curve, style, color=color, marker=SINGLE.get(len(x)))


def _draw_regularizers(x: np.ndarray, together: Sequence[RegularizerSummary], panel: "Axes") -> None:
    """A line for each of these, which have one range."""
    first = together[0].hyperparameter
    if first.scale == "log":
        panel.set_yscale("log")
        panel.set_ylim(first.low, first.high)
        panel.yaxis.set_major_formatter("{x:g}")
    else:
        margin = 0.02 * (first.high - first.low)
        panel.set_ylim(first.low - margin, first.high + margin)
    panel.set_ylabel(first.unit or "", fontsize=8)
    # Shades tell apart more lines than styles do.
    shades = np.linspace(1, 0.35, len(together))
    for one, shade, style in zip(together, shades, itertools.cycle(COPY_STYLES), strict=False):
        name = one.hyperparameter.own_name
        panel.plot(x, one.values, style, color=REGULARIZER_COLOR, alpha=shade, marker=SINGLE.get(len(x)), label=name)
    if len(together) > 1:
        panel.legend(fontsize=6 if len(together) > 4 else 7, ncols=1 + len(together) // 6)


class AugmentedCopy(NamedTuple):
    """image: float (C, H, W) in [0, 1]. made_by: operations and regularizers, a line each, `unchanged` for none."""

    image: Tensor
    made_by: str


def draw_augmented(
    schedule: Schedule, images: Sequence[Tensor], path: Path, *, epoch: int, n_copies: int, seed: int
) -> None:
    """A grid: a row per image, first as it is, then augmented copies with the operations that made them.

    images: uint8 (3, H, W) each, of any size. epoch: counted from 0.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.6 * (n_copies + 1), 1.95 * len(images) + 0.4), layout="constrained")
    places = iter(figure.subplots(len(images), n_copies + 1, squeeze=False).flatten())
    rows = augmented_copies(schedule, images, epoch=epoch, n_copies=n_copies, seed=seed)
    for image, copies in zip(images, rows, strict=True):
        for one in (AugmentedCopy(image / 255, "original"), *copies):
            place = next(places)
            place.imshow(shown(one.image).permute(1, 2, 0).numpy(), interpolation="nearest")
            place.set_title(one.made_by, fontsize=7)
            place.axis("off")
    figure.suptitle(f"Policy of epoch {epoch + 1} of {schedule.epochs}", fontsize=10)
    _save(figure, path)


def shown(image: Tensor) -> Tensor:
    """An image (C, H, W) in [0, 1] as uint8, at most MOST_SIDE pixels wide and high."""
    if max(image.shape) > MOST_SIDE:
        image = TF.resize(image, [MOST_SIDE], max_size=MOST_SIDE + 1).clamp(0, 1)
    return (image * 255).round().byte()


def augmented_copies(
    schedule: Schedule, images: Sequence[Tensor], *, epoch: int, n_copies: int, seed: int
) -> Iterator[list[AugmentedCopy]]:
    """For each image the copies that draw_augmented shows: first operations act, then regularizers of pixels."""
    generator, space = torch.Generator().manual_seed(seed), schedule.space
    policy = schedule.without_regularizers().policy(epoch) if space.operations else None
    further, row = on_pixels(space), torch.tensor(schedule.values[epoch], dtype=torch.float32)
    acts = Regularization(space.regularizers, space.n_of_policy)
    for image in images:
        batch = (image.float() / 255).expand(n_copies, *image.shape)
        fill, lines = fill_for(batch, schedule.fill), [""] * n_copies
        if policy is not None:
            draw = policy.draw(n_copies, generator)
            batch = apply_operations(policy.space, draw, batch, fill)
            lines = [described_draw(space, draw, copy) for copy in range(n_copies)]
        augmented = acts.on_pixels(batch, row, generator, fill)
        made_by = ["\n".join(filter(None, [words, *further])) or "unchanged" for words in lines]
        yield list(map(AugmentedCopy, augmented, made_by))


def is_seen(space: SearchSpace) -> bool:
    """Whether anything of a schedule changes pixels, so that augmented copies show something."""
    return bool(space.operations or on_pixels(space))


def described_draw(space: SearchSpace, draw: BatchSample, index: int) -> str:
    """What one image got, an operation a line, in order."""
    lines = []
    for slot, magnitude in zip(draw.slots[index].tolist(), draw.magnitudes[index].tolist(), strict=True):
        if slot >= 0:
            operation = space.slots[slot].operation
            # Adding 0 turns a negative 0 into 0.
            lines.append(operation.name + ("" if operation.magnitude_range is None else f" {magnitude + 0.0:.3g}"))
    return "\n".join(lines)


def _save(figure: "Figure", path: Path) -> None:
    """Write a PNG file, whole or not at all."""
    write_atomically(path, lambda file: figure.savefig(file, format="png", dpi=DOTS_PER_INCH))
