"""The picture of the records: a row for each problem, a line for each response, a band from the least to the most.

Seeds that diverged are counted, not drawn.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from closed_form.record import Record, n_diverged
from hba.runtime.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES = {
    "affine": ("tab:red", "-"),
    "centered": ("tab:orange", "-"),
    "separate": ("tab:blue", "-"),
    # Where both coincide, the dashes leave the line below to be seen.
    "linearized": ("black", (0, (3, 3))),
}
COLUMNS = (
    ("held", "error", "λ held, weights at the best response", "relative error of dw/dλ"),
    ("search", "error", "λ searched", "relative error of dw/dλ"),
    ("search", "distance", "λ searched", "distance of λ to the best"),
    ("search", "excess", "λ searched", "excess of validation loss"),
)
LIMIT = "error that remains for ever (as derived; of two λ: the least of rank one)"
FLOOR = 1e-5
"""Below it an excess is drawn as this, or a lambda that hits the best by chance would stretch the axis."""


def draw(records: dict[str, Record], out: Path) -> None:
    figure = Figure(figsize=(15, 2.9 * len(records) + 0.8), layout="constrained")
    panels = figure.subplots(len(records), len(COLUMNS), squeeze=False)
    for row, kept in zip(panels, records.values(), strict=True):
        for panel, (kind, name, title, label) in zip(row, COLUMNS, strict=True):
            _draw_panel(panel, kept, kind, name)
            panel.set_ylabel(label)
            panel.set_title(title, fontsize=10)
        row[0].set_title(f"{kept['title']}\n{COLUMNS[0][2]}", fontsize=10)
    for panel in panels[-1]:
        panel.set_xlabel("training steps")
    handles = [*panels[0, 0].get_legend_handles_labels()[0], Line2D([], [], color="grey", linestyle=":", label=LIMIT)]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    write_atomically(out, lambda file: figure.savefig(file, format="png", dpi=100))


def _draw_panel(panel: "Axes", kept: Record, kind: str, name: str) -> None:
    for response, (color, line) in STYLES.items():
        curves = kept["runs"][response][kind]
        if (diverged := n_diverged(curves)) and name == "error":
            panel.text(
                0.04, 0.06, f"{response}: {diverged} of {len(curves)} diverged", color=color, transform=panel.transAxes
            )
        curves = [curve for curve in curves if curve[name][-1] is not None]
        if not curves:
            continue
        steps, values = curves[0]["step"], _values(curves, name)
        panel.fill_between(steps, values.min(axis=0), values.max(axis=0), color=color, alpha=0.13, linewidth=0)
        panel.plot(steps, values.mean(axis=0), color=color, linestyle=line, linewidth=1.6, label=response)
    if kind == "held":
        _draw_limits(panel, kept["limits"])
    if name == "excess":
        panel.set_yscale("log")
    else:
        panel.set_ylim(bottom=0)
    if name == "error":
        panel.set_ylim(0, 1.25)
    panel.set_xlim(0, None)
    panel.grid(alpha=0.25)


def _draw_limits(panel: "Axes", limits: dict[str, float | None]) -> None:
    """Dotted lines; one where all responses share it."""
    shown: set[float] = set()
    for response, limit in limits.items():
        if limit is not None and limit not in shown:
            shown.add(limit)
            panel.axhline(limit, color=STYLES[response][0], linestyle=":", linewidth=1.2)


def _values(curves: list[dict[str, Any]], name: str) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """(seeds, points)."""
    values = np.array([curve[name] for curve in curves], dtype=np.float64)
    return np.maximum(values, FLOOR) if name == "excess" else values
