"""The table of the closed forms, and their picture: a row for each problem, a line for each response, a band from the
least to the most. Seeds that diverged are counted, not drawn.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common.records import Record, newest
from exact.problems import PROBLEMS
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from closed_form.tasks import HELD, SEARCHED
from hba.utils.files import write_atomically

STYLES = {
    "affine": ("tab:red", "-"),
    "centered": ("tab:orange", "-"),
    "separate": ("tab:blue", "-"),
    # Where both coincide, the dashes leave the line below to be seen.
    "linearized": ("black", (0, (3, 3))),
}
COLUMNS = (
    (HELD, "error", "λ held, weights at the best response", "relative error of dw/dλ"),
    (SEARCHED, "error", "λ searched", "relative error of dw/dλ"),
    (SEARCHED, "distance", "λ searched", "distance of λ to the best"),
    (SEARCHED, "excess", "λ searched", "excess of validation loss"),
)
LIMIT = "error that remains for ever (as derived; of two λ: the least of rank one)"
FLOOR = 1e-5
"""Below it an excess is drawn as this, or a lambda that hits the best by chance would stretch the axis."""


def curve_frame(records: Iterable[Record]) -> pd.DataFrame:
    """A row for each run of the newest settings: problem, response, kind, and its curves as lists."""
    kept = newest(records, lambda run: (run.name, *run.further.values()))
    frame = pd.DataFrame({"problem": one.run.name, **one.run.further, **one.results} for one in kept)
    return frame.set_index("problem").loc[[name for name in PROBLEMS if name in set(frame["problem"])]].reset_index()


def closed_form_table(records: Iterable[Record]) -> pd.DataFrame:
    """At the end of the runs: mean (least to most) over seeds that did not diverge; a row for each response."""
    rows = []
    for (problem, response), runs in curve_frame(records).groupby(["problem", "response"], sort=False):
        held, searched = runs[runs["kind"] == HELD], runs[runs["kind"] == SEARCHED]
        limit = runs["limit"].iloc[0]
        rows.append(
            {
                "problem": PROBLEMS[problem].title,
                "response": response,
                "held: Jacobian's error": _at_end(held["error"]),
                "limit": "" if pd.isna(limit) else f"{limit:.3f}",
                "search: Jacobian's error": _at_end(searched["error"]),
                "cosine": _at_end(searched["cosine"]),
                "distance of lambda": _at_end(searched["distance"]),
                "excess of validation loss": _at_end(searched["excess"]),
            }
        )
    return pd.DataFrame(rows)


def _at_end(curves: Iterable[Sequence[float | None]]) -> str:
    ends = pd.Series([curve[-1] for curve in curves], dtype=float)
    diverged, ends = int(ends.isna().sum()), ends.dropna()
    shown = f"{ends.mean():.3f} ({ends.min():.3f} to {ends.max():.3f})" if len(ends) else ""
    return f"{shown} {diverged} of {diverged + len(ends)} diverged".strip() if diverged else shown


def draw(records: Iterable[Record], out: Path) -> None:
    runs = curve_frame(records)
    problems = list(runs["problem"].unique())
    figure = Figure(figsize=(15, 2.9 * len(problems) + 0.8), layout="constrained")
    panels = figure.subplots(len(problems), len(COLUMNS), squeeze=False)
    for row, problem in zip(panels, problems, strict=True):
        for panel, (kind, name, title, label) in zip(row, COLUMNS, strict=True):
            _draw_panel(panel, runs[(runs["problem"] == problem) & (runs["kind"] == kind)], kind, name)
            panel.set_ylabel(label)
            panel.set_title(title, fontsize=10)
        row[0].set_title(f"{PROBLEMS[problem].title}\n{COLUMNS[0][2]}", fontsize=10)
    for panel in panels[-1]:
        panel.set_xlabel("training steps")
    handles = [*panels[0, 0].get_legend_handles_labels()[0], Line2D([], [], color="grey", linestyle=":", label=LIMIT)]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    write_atomically(out, lambda file: figure.savefig(file, format="png", dpi=100))


def _draw_panel(panel: Any, runs: pd.DataFrame, kind: str, name: str) -> None:
    for response, (color, line) in STYLES.items():
        own = runs[runs["response"] == response]
        went = own[[curve[-1] is not None for curve in own[name]]]
        if len(went) < len(own) and name == "error":
            text = f"{response}: {len(own) - len(went)} of {len(own)} diverged"
            panel.text(0.04, 0.06, text, color=color, transform=panel.transAxes)
        if went.empty:
            continue
        steps, values = went["step"].iloc[0], np.array(went[name].tolist(), dtype=np.float64)
        values = np.maximum(values, FLOOR) if name == "excess" else values
        panel.fill_between(steps, values.min(axis=0), values.max(axis=0), color=color, alpha=0.13, linewidth=0)
        panel.plot(steps, values.mean(axis=0), color=color, linestyle=line, linewidth=1.6, label=response)
    if kind == HELD:
        # One line where all responses share it.
        for limit, shared in runs.dropna(subset="limit").groupby("limit"):
            color = STYLES[shared["response"].iloc[0]][0]
            panel.axhline(limit, color=color, linestyle=":", linewidth=1.2)
    panel.set_yscale("log" if name == "excess" else "linear")
    if name != "excess":
        panel.set_ylim(0, 1.25 if name == "error" else None)
    panel.set_xlim(0, None)
    panel.grid(alpha=0.25)
