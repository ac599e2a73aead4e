"""Figures of a page: matplotlib's SVG, put into the page itself.

Matplotlib writes each colour as a number. Those of COLORS become variables of page.css, so that a figure follows the
page from light to dark. Texts stay texts, in the page's font. Matplotlib is imported when the first figure is drawn.
"""

import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from markupsafe import Markup, escape

from hba.report.findings import share
from hba.report.results import Results
from hba.report.tables import Table, most_confused, shares_of, shares_table
from hba.schedule.pictures import MAGNITUDE_COLOR, PROBABILITY_COLOR, REGULARIZER_COLOR
from hba.schedule.schedule import Schedule
from hba.schedule.summary import applied_per_image, numbers_applied, spaced
from hba.utils.text import counted, percent, points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, MUTED, RULE, PAPER = "#1e1d1b", "#66635c", "#dcd8d0", "#fdfcfa"
HUES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
GRAYS = ("#c9c5bc", "#dad6ce")
STEPS = ("#e3e0d9", "#b9d0e8", "#7ea9d3", "#3f7cb8", "#1b4f86")
COLORS: Mapping[str, str] = {
    INK: "ink",
    MUTED: "muted",
    RULE: "rule",
    PAPER: "paper",
    PROBABILITY_COLOR: "probability",
    MAGNITUDE_COLOR: "magnitude",
    REGULARIZER_COLOR: "regularizer",
    **{color: f"c{number}" for number, color in enumerate(HUES)},
    **{color: f"g{number}" for number, color in enumerate(GRAYS)},
    **{color: f"n{number}" for number, color in enumerate(STEPS)},
}
"""The variable of page.css for each colour that is drawn."""
STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.edgecolor": RULE,
    "axes.labelcolor": MUTED,
    "axes.spines.top": False,
    "text.color": MUTED,
    "text.parse_math": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "lines.linewidth": 1.3,
    "legend.frameon": False,
    "svg.fonttype": "none",
    # Without it, names in the file are random.
    "svg.hashsalt": "hba",
}
MOST_EPOCHS, FEWEST_EPOCHS = 60, 8
MOST_WALKS = 1800
"""Slots times epochs of a stack: sixty epochs of the usual thirty slots."""
MOST_LAYERS = 18
"""Of a stack; the smallest of more operations become one."""
NAMED_CLASSES = 20
"""The names of more classes would not be legible beside a matrix."""


def panel_svg(draw: Callable[["Axes"], None], description: str, left: float = 0.13, right: float = 0.86) -> Markup:
    """A small figure with fixed margins and few ticks, which takes a fraction of the time of one with a layout."""

    def draw_small(axes: "Axes") -> None:
        draw(axes)
        figure = axes.get_figure()
        assert figure is not None
        figure.subplots_adjust(left=left, right=right, bottom=0.14, top=0.96)
        for one in figure.get_axes():
            # The page names units in words above the figure.
            one.set_ylabel("")
            one.locator_params(axis="x", nbins=3, integer=True)
            if one.get_yscale() == "linear":
                one.locator_params(axis="y", nbins=4)

    return svg(draw_small, description, 2.35, 1.5, layout=None)


def svg(
    draw: Callable[["Axes"], None],
    description: str,
    width: float = 4.7,
    height: float = 2.4,
    layout: Literal["constrained"] | None = "constrained",
) -> Markup:
    """One figure of that size in inches, for the page. description: what it shows, for those who do not see it."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    written = io.StringIO()
    with rc_context(STYLE), warnings.catch_warnings():
        # Glyphs that matplotlib's font lacks are drawn by the browser.
        warnings.simplefilter("ignore", UserWarning)
        figure = Figure(figsize=(width, height), layout=layout)
        draw(figure.subplots())
        figure.savefig(written, format="svg", transparent=True)
    text = written.getvalue()
    text = re.sub(r"(?s)<metadata>.*?</metadata>|<style.*?</style>", "", text[text.index("<svg") :])
    # Names of groups come again in the next figure of the page.
    text = re.sub(r'<g id="[^"]*"', "<g", text.partition(">")[2])
    # Two decimals of a point are enough for any screen.
    text = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), text)
    text = re.sub("|".join(COLORS), lambda found: f"var(--{COLORS[found[0]]})", text)
    size = f"0 0 {72 * width:g} {72 * height:g}"
    return Markup(f'<svg viewBox="{size}" role="img" aria-label="{escape(description)}">{text}')


def printable(text: str) -> str:
    """Text that UTF-8 can hold; a file's name may have bytes that are none, which are then shown as \\udcff."""
    return text.encode("utf-8", "backslashreplace").decode()


def metrics_figure(title: str, lines: Mapping[str, Mapping[int, float]], digits: int) -> Markup:
    """Lines over epochs by name, with dots where they were measured in some epochs only."""

    def draw(axes: "Axes") -> None:
        for (name, points_of_line), color in zip(lines.items(), (MAGNITUDE_COLOR, PROBABILITY_COLOR), strict=False):
            epochs = sorted(points_of_line)
            shown = [epochs[index] for index in spaced(len(epochs), 200)]
            is_sparse = len(epochs) == 1 or len(epochs) <= epochs[-1] - epochs[0]
            values = [points_of_line[epoch] for epoch in shown]
            label = f"{name} {points_of_line[epochs[-1]]:.{digits}f}"
            axes.plot(shown, values, "." if is_sparse else "", linestyle="-", color=color, label=label)
        axes.set_ylim(bottom=0)
        axes.spines["right"].set_visible(False)
        axes.set_xlabel("epoch")
        axes.locator_params(axis="x", integer=True)
        axes.legend()

    last = ", ".join(f"{name} {line[max(line)]:.{digits}f} after epoch {max(line)}" for name, line in lines.items())
    return svg(draw, f"{title} over epochs: {last}")


def operations_stack(schedule: Schedule) -> tuple[Markup, Table]:
    """Of all operations that are applied, which share is which; those in colour changed most."""
    epochs = _stack_epochs(schedule)
    each = np.array([list(applied_per_image(schedule, epoch).values()) for epoch in epochs]).T
    total = each.sum(axis=0)
    shares = np.divide(each, total, out=np.zeros_like(each), where=total > 0)
    order = np.argsort(-shares[:, -1], kind="stable")
    names, shares = [schedule.space.operations[index].name for index in order], shares[order]
    if (n_others := len(names) - MOST_LAYERS + 1) > 1:
        names = [*names[:-n_others], f"{n_others} others"]
        shares = np.concatenate([shares[:-n_others], shares[-n_others:].sum(axis=0, keepdims=True)])
    moved = np.argsort(-abs(shares[:, -1] - shares[:, 0]), kind="stable")[: len(HUES)].tolist()
    colors = [HUES[moved.index(n)] if n in moved else GRAYS[n % 2] for n in range(len(names))]
    return _stack(epochs, names, shares, colors, "Share of each operation among all that are applied", 3.4)


def numbers_stack(schedule: Schedule) -> tuple[Markup, Table]:
    """The share of images that get no operation, one, two, ..."""
    epochs = _stack_epochs(schedule)
    shares = np.array([numbers_applied(schedule, epoch) for epoch in epochs]).T
    names = ["none", *(counted(number, "operation") for number in range(1, len(shares)))]
    colors = [STEPS[min(number, len(STEPS) - 1)] for number in range(len(shares))]
    return _stack(epochs, names, shares, colors, "Share of images by number of operations", 2.6)


def _stack_epochs(schedule: Schedule) -> list[int]:
    return spaced(schedule.epochs, max(FEWEST_EPOCHS, min(MOST_EPOCHS, MOST_WALKS // schedule.space.n_slots)))


def _stack(
    epochs: Sequence[int], names: Sequence[str], shares: np.ndarray, colors: Sequence[str], title: str, height: float
) -> tuple[Markup, Table]:
    """shares (layers, epochs), which add up to at most 1; the first layer is at the bottom."""
    labels = [f"{name} {100 * row[-1]:.1f} %" for name, row in zip(names, shares, strict=True)]

    def draw(axes: "Axes") -> None:
        # One epoch is drawn as a bar.
        x, heights = ([0, 1], shares.repeat(2, axis=1)) if len(epochs) == 1 else (np.array(epochs) + 1, shares)
        areas = axes.stackplot(x, 100 * heights, colors=colors, edgecolor=PAPER, linewidth=0.4)
        axes.margins(0)
        axes.set_ylim(0, 100)
        axes.set_ylabel("per cent")
        axes.set_xlabel("epoch")
        axes.locator_params(axis="x", integer=True)
        if len(epochs) == 1:
            axes.set_xticks([0.5], [f"{epochs[0] + 1}"])
        figure = axes.get_figure()
        assert figure is not None
        figure.legend(
            areas[::-1], labels[::-1], loc="outside right upper", fontsize=7, handlelength=0.8, labelspacing=0.25
        )

    description = f"{title}; in the last epoch: {', '.join(labels)}"
    return svg(draw, description, height=height), shares_table(names, shares, epochs)


def errors_figure(results: Results) -> Markup:
    """A dot for the test error of each seed, at the same height in each row, and a bar for their mean."""
    seeds = sorted({seed for row in results.rows for seed in row.seeds})

    def draw(axes: "Axes") -> None:
        for place, row in enumerate(results.rows):
            heights = [place + 0.6 * ((seeds.index(seed) + 1) / (len(seeds) + 1) - 0.5) for seed in row.seeds]
            axes.plot(row.test_error_percent, heights, "o", color=PROBABILITY_COLOR if place == 0 else MUTED, ms=3)
            if row.mean is not None:
                axes.plot([row.mean] * 2, [place - 0.35, place + 0.35], color=INK)
        axes.set_xlabel("test error, per cent")
        _name_rows(axes, results)

    words = "; ".join(
        f"{row.name}: test error {percent(row.mean)}, by seed {', '.join(map('{:.2f}'.format, row.test_error_percent))}"
        for row in results.rows
    )
    return svg(draw, words, height=_height(results))


def differences_figure(results: Results) -> Markup | None:
    """The error of the schedule minus that of each row, with its interval; None where there are no pairs."""
    found = {place: row.schedule_minus_row for place, row in enumerate(results.rows) if row.schedule_minus_row}
    if not found:
        return None

    def draw(axes: "Axes") -> None:
        axes.axvline(0, color=INK, linewidth=0.8)
        for place, difference in found.items():
            low, high = difference.interval or (difference.mean, difference.mean)
            color = HUES[2] if high < 0 else HUES[5] if low > 0 else MUTED
            axes.plot([low, high], [place, place], color=color, linewidth=2)
            axes.plot(difference.mean, place, "o", color=color, ms=4)
        axes.set_xlabel(f"{printable(results.rows[0].name)} minus this, points")
        _name_rows(axes, results)

    words = "; ".join(
        f"the schedule minus {results.rows[place].name}: {points(one.mean, one.interval)} points"
        for place, one in found.items()
    )
    return svg(draw, words, height=_height(results))


def _height(results: Results) -> float:
    return 0.6 + 0.32 * len(results.rows)


def _name_rows(axes: "Axes", results: Results) -> None:
    """From top to bottom."""
    axes.set_yticks(range(len(results.rows)), [printable(row.name) for row in results.rows])
    axes.set_ylim(len(results.rows) - 0.5, -0.5)
    axes.grid(axis="x", color=RULE, linewidth=0.5)
    axes.spines["right"].set_visible(False)


def confusion_figure(name: str, images: np.ndarray, classes: Sequence[str]) -> Markup:
    """A row for each class and a column for each answer; the shade is the share of a class's images."""
    shares = shares_of(images)
    shades = np.zeros((*images.shape, 4))
    # One blue that is seen on light and on dark, with the share as its opacity; small shares stay visible.
    shades[..., :3] = [0x3F / 255, 0x7C / 255, 0xB8 / 255]
    shades[..., 3] = np.sqrt(shares)
    shown = list(classes) if len(classes) <= NAMED_CLASSES else []

    def draw(axes: "Axes") -> None:
        axes.imshow(shades, interpolation="none")
        axes.set_yticks(range(len(shown)), [printable(one)[:16] for one in shown])
        axes.set_xticks([])
        axes.set_xlabel("answer")
        axes.spines["right"].set_visible(False)

    pairs = [
        f"{classes[one]} for {classes[other]} {share(shares[one, other])}" for one, other in most_confused([shares], 3)
    ]
    words = f"Confusion matrix of {name}: a row for each class, a column for each answer; most often taken: "
    return svg(draw, words + (", ".join(pairs) or "none"), 4.4, 3.6)
