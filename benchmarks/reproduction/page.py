"""Write docs/reproduction.md, and draw its picture."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import common.pages as pages
import pandas as pd
from common.records import Record, newest, store_of
from common.tables import NOTHING, markdown, origin, spread_text
from matplotlib.figure import Figure

from hba.utils.files import write_atomically
from reproduction.runs import Cell, Table
from reproduction.tables import TABLES

PICTURE = "algorithms.png"
COLORS = ("tab:red", "tab:orange", "tab:blue", "tab:green")
QUESTION = "reproduction"
ByRun = Mapping[str, Sequence[Record]]
"""Records by the name of the run."""


@dataclass(frozen=True)
class AtScale:
    """A table at one scale."""

    scale: str
    datasets: str
    origin: str
    table: str


def write_page(results: Path, docs: Path) -> Path:
    """Write docs/reproduction.md and its picture."""
    scales = by_scale(results)
    shown = {
        number: [
            shown_table
            for scale in sorted(scales)
            if (shown_table := _at_scale(table, scale, scales[scale]))
        ]
        for number, table in TABLES.items()
    }
    draw_derivation(scales, docs / PICTURE)
    return pages.write_page(
        "reproduction",
        docs,
        tables=TABLES,
        shown=shown,
        paper=_paper_table,
        picture=PICTURE,
    )


def by_scale(results: Path) -> dict[str, ByRun]:
    """The records of each scale by run, in the order of their seeds."""
    kept = store_of(results, QUESTION).records()
    records = newest(kept, lambda run: (run.name, run.further["scale"]))
    grouped: dict[str, dict[str, list[Record]]] = {}
    for record in sorted(records, key=lambda record: record.run.seed):
        grouped.setdefault(record.run.further["scale"], {}).setdefault(
            record.run.name, []
        ).append(record)
    return dict(grouped)


def cell_table(table: Table, records: ByRun) -> pd.DataFrame:
    """One row per cell that was run: row, quantity, the paper's number, ours, and the
    number of values in our mean.
    """
    rows = [
        (cell.row, cell.column, cell.paper, *ours)
        for cell in table.cells
        if (ours := _ours(cell, records.get(cell.asked.name, ())))
    ]
    return pd.DataFrame(rows, columns=["", "quantity", "paper", "ours", "n"])


def _ours(cell: Cell, records: Iterable[Record]) -> tuple[str, str] | None:
    """Our number over seeds (for a timing, over rounds) and its number of values; None
    if it was not run.
    """
    quantities = [
        record.results[cell.quantity]
        for record in records
        if cell.quantity in record.results
    ]
    values = [
        value
        for quantity in quantities
        for value in (quantity if isinstance(quantity, list) else [quantity])
    ]
    return (spread_text(values, cell.digits), str(len(values))) if values else None


def _paper_table(table: Table, records: Sequence[AtScale]) -> str:
    """The paper's numbers for a table that was run at no scale; empty otherwise."""
    if records:
        return ""
    rows = [
        (cell.row, cell.column, cell.paper)
        for cell in table.cells
        if cell.paper not in (NOTHING, "?")
    ]
    return markdown(pd.DataFrame(rows, columns=["", "quantity", "paper"]))


def _at_scale(table: Table, scale: str, records: ByRun) -> AtScale | None:
    """The table at a scale; None if no part of it was run."""
    table_records = [
        record for cell in table.cells for record in records.get(cell.asked.name, ())
    ]
    if not table_records:
        return None
    datasets = ", ".join(sorted({record.run.dataset for record in table_records}))
    return AtScale(
        scale, datasets, origin(table_records), markdown(cell_table(table, records))
    )


def draw_derivation(scales: Mapping[str, ByRun], out: Path) -> None:
    """Draw validation error against time at the largest scale: a line per seed, a
    colour per algorithm.
    """
    rows = {cell.asked.name: cell.row for cell in TABLES["algorithms"].cells}
    scale = next(
        size
        for size in ("full", "small", "tiny")
        if any(name in rows for name in scales.get(size, {}))
    )
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for (name, row), color in zip(rows.items(), COLORS, strict=True):
        for number, record in enumerate(scales[scale].get(name, ())):
            seconds, errors = zip(*record.results["curve"], strict=True)
            label = row if number == 0 else None
            axes.plot(
                seconds, errors, color=color, label=label, marker=".", linewidth=1
            )
    axes.set(
        xscale="log",
        xlabel="time (s)",
        ylabel="validation error of the search network (%)",
    )
    axes.set_title(f"scale {scale}")
    axes.legend()
    write_atomically(out, partial(figure.savefig, format="png", dpi=120))
