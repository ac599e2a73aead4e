"""Figures of a page: matplotlib's SVG, embedded in the page.

Matplotlib writes each colour as a number. Colours in VARIABLES become variables of
page.css, so that figures follow the page's light or dark mode. Text remains text, in
the page's font. Matplotlib is imported for the first figure.
"""

import base64
import io
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from hba.report.samples import LARGEST_NATIVE
from hba.schedule.pictures import COLORS, Panel
from hba.schedule.summary import spaced
from hba.utils.text import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#1e1d1b"
MUTED = "#66635c"
RULE = "#dcd8d0"
BETTER = "#009e73"
WORSE = "#d55e00"
VARIABLES: Mapping[str, str] = {
    INK: "ink",
    MUTED: "muted",
    RULE: "rule",
    BETTER: "better",
    WORSE: "worse",
    **{color: kind for kind, color in COLORS.items()},
}
"""The variable of page.css for each colour in figures."""
STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.edgecolor": RULE,
    **dict.fromkeys(
        ("axes.labelcolor", "text.color", "xtick.color", "ytick.color"), MUTED
    ),
    "axes.spines.top": False,
    "text.parse_math": False,
    "lines.linewidth": 1.3,
    "legend.frameon": False,
    "svg.fonttype": "none",
    # Without a salt, names in the file are random.
    "svg.hashsalt": "hba",
}


def svg(
    draw: Callable[["Figure"], None], description: str, width: float, height: float
) -> Markup:
    """A figure for the page, with its size in inches. description: a text alternative
    for screen readers.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    written = io.StringIO()
    with rc_context(STYLE), warnings.catch_warnings():
        # The browser draws glyphs that matplotlib's font lacks.
        warnings.simplefilter("ignore", UserWarning)
        figure = Figure(figsize=(width, height))
        draw(figure)
        figure.savefig(written, format="svg", transparent=True)
    text = written.getvalue()
    text = re.sub(
        r"(?s)<metadata>.*?</metadata>|<style.*?</style>",
        "",
        text[text.index("<svg") :],
    )
    # Names of groups would repeat in the next figure of the page.
    text = re.sub(r'<g id="[^"]*"', "<g", text.partition(">")[2])
    # Two decimals of a point are enough for any screen.
    text = re.sub(
        r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), text
    )
    text = re.sub(
        "|".join(VARIABLES), lambda found: f"var(--{VARIABLES[found[0]]})", text
    )
    size = f"0 0 {72 * width:g} {72 * height:g}"
    return Markup(
        f'<svg viewBox="{size}" role="img" aria-label="{escape(description)}">{text}'
    )


def panel_figure(panel: Panel, n_epochs: int) -> Markup:
    """A small figure of a panel with few ticks; the page shows the name and the units
    above it.
    """

    def draw(figure: "Figure") -> None:
        # Fixed margins are much faster than a layout that measures the texts.
        is_regularizer = panel.ends[0][0] == "regularizer"
        figure.subplots_adjust(
            0.23 if is_regularizer else 0.13,
            0.14,
            0.97 if is_regularizer else 0.86,
            0.96,
        )
        panel.draw(figure.subplots())
        for one in figure.get_axes():
            one.set_ylabel("")
            one.locator_params(axis="x", nbins=3, integer=True)
            if one.get_yscale() == "linear":
                one.locator_params(axis="y", nbins=4)

    words = (
        f"{panel.name} over {counted(n_epochs, 'epoch')}:"
        f" {', '.join(text for _, text in panel.ends)}"
    )
    return svg(draw, words, 2.35, 1.5)


def picture(image: Tensor) -> str:
    """An image (C, H, W), float in [0, 1], as a data URL: PNG if its pixels are
    visible, else JPEG.
    """
    if max(image.shape) > LARGEST_NATIVE:
        image = TF.resize(image, [LARGEST_NATIVE], max_size=LARGEST_NATIVE + 1)
    kind = "png" if is_pixelated(image) else "jpeg"
    file = io.BytesIO()
    TF.to_pil_image((image.clamp(0, 1) * 255).round().byte()).save(
        file, format=kind, quality=90, subsampling=0
    )
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"


def is_pixelated(image: Tensor) -> bool:
    """Whether to show the pixels of an image as squares: for sides of at most 64
    pixels.
    """
    return max(image.shape) <= 64


def metrics_figure(
    title: str,
    lines: Mapping[str, Mapping[int, float]],
    digits: int,
    ends: Sequence[int] = (),
) -> Markup:
    """Lines over epochs, by name. They start again after `ends`, the last epoch of each
    leg of a search.
    """

    def draw(figure: "Figure") -> None:
        figure.subplots_adjust(0.1, 0.17, 0.97, 0.97)
        axes = figure.subplots()
        for (name, line), color in zip(
            lines.items(), (COLORS["magnitude"], COLORS["probability"]), strict=False
        ):
            epochs = sorted(line)
            shown = [epochs[index] for index in spaced(len(epochs), 200)]
            dot = (
                "."
                if ends or len(epochs) == 1 or len(epochs) <= epochs[-1] - epochs[0]
                else ""
            )
            label = name if ends else f"{name} {line[epochs[-1]]:.{digits}f}"
            joined = sorted(
                [
                    *((n, line[n]) for n in shown),
                    *((end + 0.5, math.nan) for end in ends),
                ]
            )
            axes.plot(
                *zip(*joined, strict=True), dot, linestyle="-", color=color, label=label
            )
        for end in ends[:-1]:
            axes.axvline(end + 0.5, color=RULE, linewidth=0.8)
        highest = max(max(line.values()) for line in lines.values())
        axes.set_ylim(0, 1.05 * highest or 1)
        axes.spines["right"].set_visible(False)
        axes.set_xlabel("epoch")
        axes.locator_params(axis="x", integer=True)
        axes.legend()

    last = ", ".join(
        f"{name} {line[max(line)]:.{digits}f} after epoch {max(line)}"
        for name, line in lines.items()
    )
    return svg(draw, f"{title} over epochs: {last}", 4.7, 2.4)
