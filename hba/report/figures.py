"""Figures of a page: matplotlib's SVG, put into the page itself.

Matplotlib writes each colour as a number. Those of VARIABLES become variables of page.css, so that a figure follows the
page from light to dark. Texts stay texts, in the page's font. Matplotlib is imported when the first figure is drawn.
"""

import base64
import dataclasses
import io
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from hba.report.race import RaceFindings
from hba.report.results import EvaluationResult
from hba.report.samples import Samples
from hba.schedule.pictures import COLORS, Panel, augmented_copies, shown
from hba.schedule.schedule import Schedule
from hba.schedule.summary import key_epochs, spaced
from hba.utils.text import counted, points

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, MUTED, RULE, BETTER, WORSE = "#1e1d1b", "#66635c", "#dcd8d0", "#009e73", "#d55e00"
VARIABLES: Mapping[str, str] = {
    **{INK: "ink", MUTED: "muted", RULE: "rule", BETTER: "better", WORSE: "worse"},
    **{color: kind for kind, color in COLORS.items()},
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
N_COPIES = 3


def svg(draw: Callable[["Figure"], None], description: str, width: float, height: float) -> Markup:
    """One figure of that size in inches, for the page. description: what it shows, for those who do not see it."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    written = io.StringIO()
    with rc_context(STYLE), warnings.catch_warnings():
        # Glyphs that matplotlib's font lacks are drawn by the browser.
        warnings.simplefilter("ignore", UserWarning)
        figure = Figure(figsize=(width, height))
        draw(figure)
        figure.savefig(written, format="svg", transparent=True)
    text = written.getvalue()
    text = re.sub(r"(?s)<metadata>.*?</metadata>|<style.*?</style>", "", text[text.index("<svg") :])
    # Names of groups come again in the next figure of the page.
    text = re.sub(r'<g id="[^"]*"', "<g", text.partition(">")[2])
    # Two decimals of a point are enough for any screen.
    text = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), text)
    text = re.sub("|".join(VARIABLES), lambda found: f"var(--{VARIABLES[found[0]]})", text)
    size = f"0 0 {72 * width:g} {72 * height:g}"
    return Markup(f'<svg viewBox="{size}" role="img" aria-label="{escape(description)}">{text}')


def panel_figure(panel: Panel, n_epochs: int) -> Markup:
    """A small figure with few ticks; the page names the panel and its units in words above it."""

    def draw(figure: "Figure") -> None:
        # Fixed margins take a fraction of the time of a layout by the size of the texts.
        is_regularizer = panel.ends[0][0] == "regularizer"
        figure.subplots_adjust(0.23 if is_regularizer else 0.13, 0.14, 0.97 if is_regularizer else 0.86, 0.96)
        panel.draw(figure.subplots())
        for one in figure.get_axes():
            one.set_ylabel("")
            one.locator_params(axis="x", nbins=3, integer=True)
            if one.get_yscale() == "linear":
                one.locator_params(axis="y", nbins=4)

    words = f"{panel.name} over {counted(n_epochs, 'epoch')}: {', '.join(text for _, text in panel.ends)}"
    return svg(draw, words, 2.35, 1.5)


def augmented_images(schedule: Schedule, samples: Samples) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """The images as `hba apply` augments them in the first, the middle and the last epoch.

    Title of each epoch, and row by row the address of the content, the class and the caption of an image and its
    copies.
    """
    if len(schedule.fill) > 1:
        # Operations for any number of channels treat each alone, so those that are shown are enough.
        schedule = dataclasses.replace(schedule, fill=schedule.fill[: len(samples.images[0])])
    for epoch in key_epochs(schedule):
        rows = augmented_copies(schedule, samples.images, epoch=epoch, n_copies=N_COPIES, seed=0)
        cells = [
            (_png(shown(pixels)), name, caption)
            for image, name, copies in zip(samples.images, samples.class_names, rows, strict=True)
            for pixels, caption in ((image / 255, name), *copies)
        ]
        yield f"Epoch {epoch + 1}" if schedule.epochs > 1 else "", cells


def _png(levels: Tensor) -> str:
    """A data URL."""
    file = io.BytesIO()
    TF.to_pil_image(levels).save(file, format="PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def printable(text: str) -> str:
    """Text that UTF-8 can hold; a file's name may have bytes that are none, which are then shown as \\udcff."""
    return text.encode("utf-8", "backslashreplace").decode()


def metrics_figure(
    title: str, lines: Mapping[str, Mapping[int, float]], digits: int, ends: Sequence[int] = ()
) -> Markup:
    """Lines over epochs by name, with dots where they were measured in some epochs only.

    ends: the last epochs of the legs of a search, after which the lines begin anew.
    """

    def draw(figure: "Figure") -> None:
        figure.subplots_adjust(0.1, 0.17, 0.97, 0.97)
        axes = figure.subplots()
        for (name, line), color in zip(lines.items(), (COLORS["magnitude"], COLORS["probability"]), strict=False):
            epochs = sorted(line)
            shown = [epochs[index] for index in spaced(len(epochs), 200)]
            dot = "." if ends or len(epochs) == 1 or len(epochs) <= epochs[-1] - epochs[0] else ""
            label = name if ends else f"{name} {line[epochs[-1]]:.{digits}f}"
            joined = sorted([*((n, line[n]) for n in shown), *((end + 0.5, math.nan) for end in ends)])
            axes.plot(*zip(*joined, strict=True), dot, linestyle="-", color=color, label=label)
        for end in ends[:-1]:
            axes.axvline(end + 0.5, color=RULE, linewidth=0.8)
        axes.set_ylim(bottom=0)
        axes.spines["right"].set_visible(False)
        axes.set_xlabel("epoch")
        axes.locator_params(axis="x", integer=True)
        axes.legend()

    last = ", ".join(f"{name} {line[max(line)]:.{digits}f} after epoch {max(line)}" for name, line in lines.items())
    return svg(draw, f"{title} over epochs: {last}", 4.7, 2.4)


def differences_figure(results: EvaluationResult) -> Markup | None:
    """The error of the schedule minus that of each row, with its interval; None where there are no pairs."""
    found = {name: one for name, one in results.differences.items() if one is not None}
    if not found:
        return None
    rows = {}
    for name, one in found.items():
        low, high = one.interval or (one.mean, one.mean)
        rows[name] = (one.mean, low, high, BETTER if high < 0 else WORSE if low > 0 else MUTED)
    words = "; ".join(
        f"the schedule minus {name}: {points(one.mean, one.interval)} points" for name, one in found.items()
    )
    return intervals_figure(rows, f"{printable(results.rows[0].name)} minus this, points", words)


def intervals_figure(
    rows: Mapping[str, tuple[float, float, float, str]], label: str, words: str, limit: float = 0.0
) -> Markup:
    """A dot and an interval for each name. rows: the number, both ends and the color. limit: where a line stands."""

    def draw(figure: "Figure") -> None:
        figure.set_layout_engine("constrained")
        axes = figure.subplots()
        for place, (number, low, high, color) in enumerate(rows.values()):
            axes.plot([low, high], [place, place], color=color, linewidth=2)
            axes.plot(number, place, "o", color=color, ms=4)
        axes.axvline(limit, color=INK, linewidth=0.8)
        axes.set_xlabel(label)
        axes.set_yticks(range(len(rows)), [printable(name) for name in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.grid(axis="x", color=RULE, linewidth=0.5)
        axes.spines["right"].set_visible(False)

    return svg(draw, words, 4.7, 0.6 + 0.32 * len(rows))


def race_figures(found: RaceFindings) -> dict[str, Markup]:
    """Of symmetries and of forks, with what is taken in green; bars reach one standard error to either side."""
    made, of_symmetries = {}, (100, "lost of what was learned, %", 100 * found.largest_gap)
    for kind, measured, taken, (scale, label, limit) in (
        ("symmetries", found.symmetries, found.taken, of_symmetries),
        ("forks", found.forks, (found.winner,), (1, "validation loss minus that of none, nats", 0.0)),
    ):
        rows, words = {}, []
        for name, (number, error) in measured.items():
            if math.isfinite(number + error):
                ends = (scale * (number - error), scale * (number + error))
                rows[name] = (scale * number, *ends, BETTER if name in taken else MUTED)
                words.append(f"{name}: {scale * number:.3f} ({ends[0]:.3f} to {ends[1]:.3f})")
        if rows:
            made[kind] = intervals_figure(rows, label, "; ".join(words), limit)
    return made
