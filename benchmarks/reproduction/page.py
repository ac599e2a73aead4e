"""The page docs/reproduction.md, made from the results that are kept."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hba.policy.magnitude_table import as_markdown
from reproduction.execute import mean_and_spread
from reproduction.picture import draw_derivation
from reproduction.runs import Cell, Table
from reproduction.scales import SCALES
from reproduction.tables import TABLES

PICTURE = "algorithms.png"
HEAD = """# The paper's tables, run again

Generated from `benchmarks/results` by `python benchmarks/reproduce.py page`; edit `benchmarks/reproduction` instead.
Beside each number of the paper stands ours: mean ± standard deviation over seeds (of a timing: over rounds), with the
number of them. `not run` is what it says. A smaller scale is not the paper's experiment: compare its rows with each
other, and whether they stand in the paper's order, not its numbers with the paper's. Trainings whose records name a
commit before `7a14bbf` start from the first weights of the search of their seed; evaluations have seeds of their own
since.
"""

Record = Mapping[str, Any]


def records_of(results: Path, scale: str) -> dict[str, list[Record]]:
    """All records of a scale by the run's name, in the order of their seeds."""
    found: dict[str, list[Record]] = {}
    for path in sorted((results / scale).glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        found.setdefault(record["run"], []).append(record)
    return {name: sorted(records, key=lambda record: int(record["seed"])) for name, records in found.items()}


def rows_of(table: Table, records: Mapping[str, list[Record]]) -> list[list[str]]:
    """One row for each cell: row, column, the paper's number, ours, and how many values it is the mean of."""
    return [[cell.row, cell.column, cell.paper, *_ours(cell, records.get(cell.run.name, []))] for cell in table.cells]


def _ours(cell: Cell, records: list[Record]) -> tuple[str, str]:
    values = [record["results"][cell.quantity] for record in records if cell.quantity in record["results"]]
    if not values:
        return "not run", "-"
    mean, spread, n_values = mean_and_spread(values)
    return f"{mean:.{cell.digits}f}" + (f" ± {spread:.{cell.digits}f}" if spread is not None else ""), str(n_values)


HEADINGS = ("", "quantity", "paper", "ours", "n")


def printed(results: Path, number: str, scale: str) -> str:
    """A table for the terminal."""
    rows = rows_of(TABLES[number], records_of(results, scale))
    return f"{TABLES[number].title}, scale {scale}\n" + as_markdown(HEADINGS, rows)


def write_page(results: Path, docs: Path) -> None:
    """docs/reproduction.md, and the picture beside it where there is something to draw."""
    parts = [HEAD]
    for number, table in TABLES.items():
        parts.append(f"## {table.title}\n")
        if table.note:
            parts.append(table.note + "\n")
        shown = False
        for scale in _scales_with_results(results):
            records = records_of(results, scale)
            own = [record for cell in table.cells for record in records.get(cell.run.name, [])]
            if own:
                shown = True
                parts.append(_scale_text(number, scale, own))
                parts.append(as_markdown(HEADINGS, rows_of(table, records)) + "\n")
        if not shown:
            parts.append("Not run at any scale.\n")
            parts.append(as_markdown(HEADINGS, rows_of(table, {})) + "\n")
        if number == "algorithms" and draw_derivation(table, results, docs / PICTURE):
            parts.append(f"![Validation error against time]({PICTURE})\n")
    (docs / "reproduction.md").write_text("\n".join(parts), encoding="utf-8")


def _scales_with_results(results: Path) -> list[str]:
    return sorted({path.parent.name for path in results.glob("*/*.json")})


def _scale_text(number: str, scale: str, records: list[Record]) -> str:
    """What was run on what, and the command."""
    text = (
        SCALES[scale].text
        if scale in SCALES
        else f"as in the paper, with {scale.removeprefix('epochs-')} of its epochs"
    )
    datasets = ", ".join(sorted({record["dataset"] for record in records}))
    hardware = sorted({hardware_of(record) for record in records})
    option = scale.removeprefix("epochs-")
    return (
        f"Scale `{scale}`: {text}.\n\nData: {datasets}. Hardware: {'; '.join(hardware)}. "
        f"Command: `python benchmarks/reproduce.py {number} --scale {option}`, with `--data` where a folder stands for "
        "a dataset.\n"
    )


def hardware_of(record: Record) -> str:
    threads = f", {record['n_threads']} thread(s)" if record["device"] == "cpu" else ""
    packages = record["packages"]
    return f"{record['device_name']}{threads}, PyTorch {packages['torch']}"
