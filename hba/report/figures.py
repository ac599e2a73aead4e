"""Figures of a page: matplotlib's SVG, put into the page itself.

Matplotlib writes each colour as a number. Those of COLORS become variables of page.css, so that a figure follows the
page from light to dark. Texts stay texts, in the page's font. Matplotlib is imported when the first figure is drawn.
"""

import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup, escape

from hba.report.findings import share
from hba.report.results import EvaluationResult
from hba.report.tables import most_confused
from hba.schedule.pictures import MAGNITUDE_COLOR, PROBABILITY_COLOR, REGULARIZER_COLOR
from hba.schedule.summary import spaced
from hba.utils.text import percent, points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, MUTED, RULE, BETTER, WORSE = "#1e1d1b", "#66635c", "#dcd8d0", "#009e73", "#d55e00"
COLORS: Mapping[str, str] = {
    INK: "ink",
    MUTED: "muted",
    RULE: "rule",
    BETTER: "better",
    WORSE: "worse",
    PROBABILITY_COLOR: "probability",
    MAGNITUDE_COLOR: "magnitude",
    REGULARIZER_COLOR: "regularizer",
}
"""The variable of page.css for each colour that is drawn."""
STYLE: dict[Any, Any] = {
    "font.size": 8,
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
NAMED_CLASSES = 20
"""The names of more classes would not be legible beside a matrix."""


def svg(
    draw: Callable[["Axes"], None],
    description: str,
    width: float = 4.7,
    height: float = 2.4,
    margins: tuple[float, float, float, float] | None = None,
) -> Markup:
    """One figure of that size in inches, for the page.

    description: what it shows, for those who do not see it. margins: left, bottom, right and top of the axes, as
    shares of the figure, which takes a fraction of the time that a layout by the size of its texts takes.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    written = io.StringIO()
    with rc_context(STYLE), warnings.catch_warnings():
        # Glyphs that matplotlib's font lacks are drawn by the browser.
        warnings.simplefilter("ignore", UserWarning)
        figure = Figure(figsize=(width, height), layout="constrained" if margins is None else None)
        if margins is not None:
            figure.subplots_adjust(*margins)
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


def panel_svg(draw: Callable[["Axes"], None], description: str, left: float = 0.13, right: float = 0.86) -> Markup:
    """A small figure with few ticks. left, right: ends of the axes, as shares of the width."""

    def draw_small(axes: "Axes") -> None:
        draw(axes)
        for one in axes.get_figure().get_axes():  # type: ignore[union-attr]
            # The page names units in words above the figure.
            one.set_ylabel("")
            one.locator_params(axis="x", nbins=3, integer=True)
            if one.get_yscale() == "linear":
                one.locator_params(axis="y", nbins=4)

    return svg(draw_small, description, 2.35, 1.5, (left, 0.14, right, 0.96))


def printable(text: str) -> str:
    """Text that UTF-8 can hold; a file's name may have bytes that are none, which are then shown as \\udcff."""
    return text.encode("utf-8", "backslashreplace").decode()


def metrics_figure(title: str, lines: Mapping[str, Mapping[int, float]], digits: int) -> Markup:
    """Lines over epochs by name, with dots where they were measured in some epochs only."""

    def draw(axes: "Axes") -> None:
        for (name, line), color in zip(lines.items(), (MAGNITUDE_COLOR, PROBABILITY_COLOR), strict=False):
            epochs = sorted(line)
            shown = [epochs[index] for index in spaced(len(epochs), 200)]
            dot = "." if len(epochs) == 1 or len(epochs) <= epochs[-1] - epochs[0] else ""
            label = f"{name} {line[epochs[-1]]:.{digits}f}"
            axes.plot(shown, [line[n] for n in shown], dot, linestyle="-", color=color, label=label)
        axes.set_ylim(bottom=0)
        axes.spines["right"].set_visible(False)
        axes.set_xlabel("epoch")
        axes.locator_params(axis="x", integer=True)
        axes.legend()

    last = ", ".join(f"{name} {line[max(line)]:.{digits}f} after epoch {max(line)}" for name, line in lines.items())
    return svg(draw, f"{title} over epochs: {last}", margins=(0.1, 0.17, 0.97, 0.97))


def errors_figure(results: EvaluationResult) -> Markup:
    """A dot for the test error of each seed, at the same height in each row, and a bar for their mean."""
    seeds = sorted({seed for row in results.rows for seed in row.seeds})

    def draw(axes: "Axes") -> None:
        for place, row in enumerate(results.rows):
            heights = [place + 0.6 * ((seeds.index(seed) + 1) / (len(seeds) + 1) - 0.5) for seed in row.seeds]
            axes.plot(row.test_error_percent, heights, "o", color=PROBABILITY_COLOR if place == 0 else MUTED, ms=3)
            if row.mean is not None:
                axes.plot([row.mean] * 2, [place - 0.35, place + 0.35], color=INK)

    words = "; ".join(
        f"{row.name}: test error {percent(row.mean)}, by seed {', '.join(map('{:.2f}'.format, row.test_error_percent))}"
        for row in results.rows
    )
    return _by_row(results, draw, "test error, per cent", words)


def differences_figure(results: EvaluationResult) -> Markup | None:
    """The error of the schedule minus that of each row, with its interval; None where there are no pairs."""
    found = {place: one for place, one in enumerate(results.differences.values(), start=1) if one is not None}
    if not found:
        return None

    def draw(axes: "Axes") -> None:
        axes.axvline(0, color=INK, linewidth=0.8)
        for place, difference in found.items():
            low, high = difference.interval or (difference.mean, difference.mean)
            color = BETTER if high < 0 else WORSE if low > 0 else MUTED
            axes.plot([low, high], [place, place], color=color, linewidth=2)
            axes.plot(difference.mean, place, "o", color=color, ms=4)

    words = "; ".join(
        f"the schedule minus {results.rows[place].name}: {points(one.mean, one.interval)} points"
        for place, one in found.items()
    )
    return _by_row(results, draw, f"{printable(results.rows[0].name)} minus this, points", words)


def _by_row(results: EvaluationResult, draw: Callable[["Axes"], None], label: str, description: str) -> Markup:
    """A figure of one number for each row, from top to bottom."""

    def draw_rows(axes: "Axes") -> None:
        draw(axes)
        axes.set_xlabel(label)
        axes.set_yticks(range(len(results.rows)), [printable(row.name) for row in results.rows])
        axes.set_ylim(len(results.rows) - 0.5, -0.5)
        axes.grid(axis="x", color=RULE, linewidth=0.5)
        axes.spines["right"].set_visible(False)

    return svg(draw_rows, description, height=0.6 + 0.32 * len(results.rows))


def confusion_figure(name: str, shares: np.ndarray, classes: Sequence[str]) -> Markup:
    """A row for each class and a column for each answer; the shade is the share of a class's images."""
    shades = np.zeros((*shares.shape, 4))
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
