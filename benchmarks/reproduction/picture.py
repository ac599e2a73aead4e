"""Validation error against time for the algorithms of the derivation."""

from pathlib import Path

import matplotlib.pyplot as plt

from reproduction.runs import Table
from reproduction.scales import SCALES

COLORS = ("tab:red", "tab:orange", "tab:blue", "tab:green")


def draw_derivation(table: Table, results: Path, out: Path) -> bool:
    """One line for each seed, a colour for each algorithm; False where no scale has results."""
    import json

    for scale in SCALES:
        curves = {
            (cell.row, path): json.loads(path.read_text(encoding="utf-8"))["results"]["curve"]
            for cell in table.cells
            for path in sorted((results / scale).glob(f"{cell.run.name}-seed*.json"))
        }
        if curves:
            break
    else:
        return False
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    rows = list(dict.fromkeys(row for row, _ in curves))
    for (row, path), curve in curves.items():
        seconds, errors = zip(*curve, strict=True)
        label = row if path.name.endswith("seed0.json") else None
        axes.plot(seconds, errors, color=COLORS[rows.index(row)], label=label, marker=".", linewidth=1)
    axes.set(
        xscale="log", xlabel="time (s)", ylabel="validation error of the search network (%)", title=f"scale {scale}"
    )
    axes.legend()
    figure.savefig(out, dpi=120)
    plt.close(figure)
    return True
