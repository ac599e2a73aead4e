"""The paper's tables: each number of paper.toml, with the run that gives ours."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from reproduction.runs import Cell, Search, Table, Timing, Training

PAPER = tomllib.loads(
    Path(__file__).with_name("paper.toml").read_text(encoding="utf-8")
)
ERROR = "test_error_percent"
NO_CUTOUT = (("cutout_size", 0),)
REDUCED = Search("reduced-cifar10")

Rows = Mapping[str, Any]


def _strategies(model: str, rows: Rows) -> Iterator[Cell]:
    """Table 2: weight sharing, on the split of the ablation study."""

    def search(dataset: str, sharing: str) -> Search:
        return Search(f"{dataset}-{model}", (("sharing", sharing),), ablation=True)

    timing = Timing(tuple(search("cifar10", sharing) for sharing in rows))
    for sharing, (*errors, hours) in rows.items():
        for dataset, paper in zip(("cifar10", "cifar100"), errors, strict=True):
            training = Training(
                f"{dataset}-{model}", search(dataset, sharing), ablation=True
            )
            yield Cell(
                sharing,
                f"{model}, {dataset}: validation error (%)",
                paper,
                training,
                ERROR,
            )
        ratio = f"{hours / rows['first-bn'][-1]:.2f}"
        yield Cell(
            sharing,
            f"{model}: time relative to first-bn",
            ratio,
            timing,
            f"relative_{sharing}",
        )


def _search_times(rows: Rows) -> Iterator[Cell]:
    """Table 3."""
    for preset, hours in rows.items():
        timing = Timing((Search(preset),), floor=True)
        yield Cell(preset, "search (hours)", hours, timing, "hours", digits=3)
        yield Cell(preset, "times the floor", "-", timing, "over_floor")


def _test_errors(rows: Rows, search: Search) -> Iterator[Cell]:
    """Tables 4 and 5: baseline, Cutout and HBA's schedule."""
    for preset, (baseline, cutout, ours) in rows.items():
        yield Cell(
            preset,
            "baseline: test error (%)",
            baseline,
            Training(preset, changes=NO_CUTOUT),
            ERROR,
        )
        yield Cell(preset, "Cutout: test error (%)", cutout, Training(preset), ERROR)
        yield Cell(preset, "HBA: test error (%)", ours, Training(preset, search), ERROR)


def _imagenet(rows: Rows) -> Iterator[Cell]:
    """Table 6; its baseline has no Cutout."""
    for preset, (baseline, ours) in rows.items():
        yield Cell(
            preset, "baseline: top-1 error (%)", baseline, Training(preset), ERROR
        )
        yield Cell(
            preset,
            "HBA: top-1 error (%)",
            ours,
            Training(preset, Search("reduced-imagenet")),
            ERROR,
        )


def _targets(rows: Rows) -> Iterator[Cell]:
    """Table 7."""
    for preset, (reduced, target, hours) in rows.items():
        by_reduced = Training(preset, REDUCED)
        search = Search(preset)
        yield Cell(
            preset,
            "searched on reduced CIFAR-10: test error (%)",
            reduced,
            by_reduced,
            ERROR,
        )
        yield Cell(
            preset,
            "on the target: test error (%)",
            target,
            Training(preset, search),
            ERROR,
        )
        yield Cell(
            preset,
            "on the target: search (hours)",
            hours,
            Timing((search,)),
            "hours",
            digits=3,
        )


def _derivation(rows: Rows) -> Iterator[Cell]:
    """Appendix B."""
    for row, algorithm in rows.items():
        search = Search("reduced-cifar10", (("algorithm", algorithm),))
        yield Cell(
            row,
            "validation error of the search network (%)",
            "-",
            search,
            "val_error_percent",
        )
        yield Cell(row, "time (s)", "-", search, "seconds", digits=0)
        yield Cell(row, "epochs", "-", search, "epochs", digits=0)


def _cells() -> Iterator[tuple[str, Iterator[Cell]]]:
    rows = {name: table.get("rows", {}) for name, table in PAPER.items()}
    for model in ("wrn-40-2", "wrn-28-10"):
        yield "table-2", _strategies(model, PAPER["table-2"][model])
    yield "table-3", _search_times(rows["table-3"])
    yield "table-4", _test_errors(rows["table-4"], REDUCED)
    yield "table-5", _test_errors(rows["table-5"], Search("reduced-svhn"))
    yield "table-6", _imagenet(rows["table-6"])
    yield "table-7", _targets(rows["table-7"])
    yield "algorithms", _derivation(rows["algorithms"])


def _tables() -> dict[str, Table]:
    cells: dict[str, list[Cell]] = {name: [] for name in PAPER}
    for name, table_cells in _cells():
        cells[name] += table_cells
    return {
        name.removeprefix("table-"): Table(entry["title"], tuple(cells[name]))
        for name, entry in PAPER.items()
    }


TABLES: Mapping[str, Table] = MappingProxyType(_tables())
"""By the number in the paper; the derivation of Appendix B has none."""
