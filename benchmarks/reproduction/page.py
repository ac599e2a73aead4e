"""What docs/reproduction.md is filled with, and the picture beside it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import common.pages as pages
import pandas as pd
from common.records import Record, newest, store_of
from common.tables import NOTHING, markdown, origin, spread_text
from matplotlib.figure import Figure

from hba.utils.files import write_atomically
from reproduction.contests import ByRun, difference_table, order_table, rates_table, time_table
from reproduction.runs import Cell, Table
from reproduction.tables import TABLES
from reproduction.tasks import SELF_TUNING

PICTURE = "algorithms.png"
COLORS = ("tab:red", "tab:orange", "tab:blue", "tab:green")
QUESTIONS = ("reproduction", SELF_TUNING)


@dataclass(frozen=True)
class AtScale:
    """A table as it was run at one scale. option: the scale's name for the command. order, differences, times,
    rates: of methods; empty where there are none to compare.
    """

    scale: str
    option: str
    datasets: str
    origin: str
    table: str
    order: str = ""
    differences: str = ""
    times: str = ""
    rates: str = ""


def write_page(results: Path, docs: Path) -> Path:
    """docs/reproduction.md, and the picture beside it where there is something to draw."""
    scales = by_scale(results)
    shown = {
        number: [found for scale in sorted(scales) if (found := _at_scale(table, scale, scales[scale]))]
        for number, table in TABLES.items()
    }
    return pages.write_page(
        "reproduction",
        docs,
        tables=TABLES,
        shown=shown,
        empty={number: markdown(cell_table(table, {})) for number, table in TABLES.items()},
        picture=PICTURE if draw_derivation(scales, docs / PICTURE) else None,
    )


def by_scale(results: Path) -> dict[str, ByRun]:
    """The records of each scale by run, in the order of their seeds."""
    kept = [record for question in QUESTIONS for record in store_of(results, question).by_key().values()]
    records = newest(kept, lambda run: (run.name, run.further["scale"]))
    found: dict[str, dict[str, list[Record]]] = {}
    for record in sorted(records, key=lambda record: record.run.seed):
        found.setdefault(record.run.further["scale"], {}).setdefault(record.run.name, []).append(record)
    return dict(found)


def cell_table(table: Table, records: ByRun) -> pd.DataFrame:
    """A row for each cell: row, quantity, the paper's number, ours, and how many values it is the mean of."""
    rows = [
        (cell.row, cell.column, cell.paper, *_ours(cell, records.get(cell.asked.name, ())))
        for cell in table.cells
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["", "quantity", "paper", "ours", "n"])


def _ours(cell: Cell, records: Iterable[Record]) -> tuple[str, str]:
    """Of a timing, over its rounds."""
    found = [record.results[cell.quantity] for record in records if cell.quantity in record.results]
    values = [value for one in found for value in (one if isinstance(one, list) else [one])]
    return (spread_text(values, cell.digits), str(len(values))) if values else ("not run", NOTHING)


def _at_scale(table: Table, scale: str, records: ByRun) -> AtScale | None:
    """None where nothing of it was run."""
    own = [record for cell in table.cells for record in records.get(cell.asked.name, ())]
    if not own:
        return None
    datasets = ", ".join(sorted({record.run.dataset for record in own}))
    option = scale.removeprefix("epochs-")
    compared = [make(table.contests, records) for make in (order_table, difference_table, time_table, rates_table)]
    texts = [markdown(one) if len(one) else "" for one in compared]
    return AtScale(scale, option, datasets, origin(own), markdown(cell_table(table, records)), *texts)


def draw_derivation(scales: Mapping[str, ByRun], out: Path) -> bool:
    """Validation error against time, a line for each seed, a colour for each algorithm, at the largest scale that has
    results; False where none has.
    """
    rows = {cell.asked.name: cell.row for cell in TABLES["algorithms"].cells}
    for scale in ("full", "small", "tiny"):
        if not any(name in rows for name in scales.get(scale, {})):
            continue
        figure = Figure(figsize=(8, 5), layout="constrained")
        axes = figure.subplots()
        for (name, row), color in zip(rows.items(), COLORS, strict=True):
            for number, record in enumerate(scales[scale].get(name, ())):
                seconds, errors = zip(*record.results["curve"], strict=True)
                label = row if number == 0 else None
                axes.plot(seconds, errors, color=color, label=label, marker=".", linewidth=1)
        axes.set(xscale="log", xlabel="time (s)", ylabel="validation error of the search network (%)")
        axes.set_title(f"scale {scale}")
        axes.legend()
        write_atomically(out, partial(figure.savefig, format="png", dpi=120))
        return True
    return False
