"""Stacked areas: of all operations that are applied, which share is which; and how many operations images get."""

from collections.abc import Sequence

import numpy as np

from hba.report.figures import Layer, Stack, Table
from hba.report.geometry import Axes, Scale, epoch_ticks, epochs_scale, kept_apart, some_of
from hba.schedule.schedule import Schedule
from hba.schedule.summary import applied_per_image, numbers_applied
from hba.utils.text import counted

N_COLORED = 6
MOST_LAYERS = 18
"""More are not told apart: the smallest become one."""
LABEL_GAP = 5.4
"""Per cent of the height between two labels."""
MOST_EPOCHS = 60
MOST_WALKS = 1800
"""Slots times epochs that are worked out: sixty epochs of the usual thirty slots."""
FEWEST_EPOCHS = 8
N_TOLD = 6


def operations_stack(schedule: Schedule) -> Stack:
    """Those in colour changed most from the first to the last epoch. The largest in the last is at the bottom."""
    epochs = _epochs(schedule)
    applied = [applied_per_image(schedule, epoch) for epoch in epochs]
    names = np.array([operation.name for operation in schedule.space.operations])
    each = np.array([list(one.values()) for one in applied]).T
    total = each.sum(axis=0)
    shares = np.divide(each, total, out=np.zeros_like(each), where=total > 0)
    order = np.argsort(-shares[:, -1], kind="stable")
    names, shares = names[order], shares[order]
    if len(names) > MOST_LAYERS:
        n_others = len(names) - MOST_LAYERS + 1
        rest = shares[-n_others:].sum(axis=0, keepdims=True)
        names = np.array([*names[:-n_others], f"{n_others} others"])
        shares = np.concatenate([shares[:-n_others], rest])
    most_moved = np.argsort(-abs(shares[:, -1] - shares[:, 0]), kind="stable")[:N_COLORED].tolist()
    styles = [f"c{most_moved.index(n)}" if n in most_moved else f"g{n % 2}" for n in range(len(names))]
    words = ", ".join(f"{name} {_percent(row[-1])}" for name, row in zip(names, shares, strict=True))
    description = f"Share of each operation among all that are applied; in the last epoch: {words}"
    return _stack(schedule, epochs, names.tolist(), shares, styles, description)


def numbers_stack(schedule: Schedule) -> Stack:
    """The share of images that get no operation, one, two, ..."""
    epochs = _epochs(schedule)
    shares = np.array([numbers_applied(schedule, epoch) for epoch in epochs]).T
    names = ["none", *(f"{number}" for number in range(1, len(shares)))]
    styles = [f"n{min(number, 4)}" for number in range(len(shares))]
    found = ", ".join(f"{_percent(row[-1])} get {counted(n, 'operation')}" for n, row in enumerate(shares))
    description = f"Share of images by number of operations; in the last epoch {found}"
    return _stack(schedule, epochs, names, shares, styles, description)


def _epochs(schedule: Schedule) -> list[int]:
    return some_of(schedule.epochs, max(FEWEST_EPOCHS, min(MOST_EPOCHS, MOST_WALKS // schedule.space.n_slots)))


def _stack(
    schedule: Schedule,
    epochs: Sequence[int],
    names: Sequence[str],
    shares: np.ndarray,
    styles: Sequence[str],
    description: str,
) -> Stack:
    """shares (layers, epochs), which add up to at most 1."""
    axes = Axes(epochs_scale(schedule.epochs), Scale(0.0, 1.0))
    xs = [epoch + 1 for epoch in epochs]
    tops = shares.cumsum(axis=0).clip(max=1)
    bottoms = tops - shares
    middles = (100 * (1 - (tops[:, -1] + bottoms[:, -1]) / 2)).tolist()
    labels = kept_apart(middles, LABEL_GAP)
    layers = [
        Layer(name, _percent(row[-1]), style, axes.area(xs, bottom, top), label)
        for name, row, style, bottom, top, label in zip(names, shares, styles, bottoms, tops, labels, strict=True)
    ]
    told = some_of(len(epochs), N_TOLD)
    headings = ("", *(f"epoch {epochs[number] + 1}" for number in told))
    rows = tuple((name, *(_percent(row[n]) for n in told)) for name, row in zip(names, shares, strict=True))
    return Stack(description, tuple(layers), tuple(epoch_ticks(schedule.epochs)), Table(headings, rows))


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"
