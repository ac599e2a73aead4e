"""Tables in which methods are compared by their losses: their cells, the papers' order of methods, and ours."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from types import MappingProxyType
from typing import Any

import pandas as pd
from common.records import Record
from common.tables import NOTHING, spread_text

from hba.policy_evaluation.statistics import PairedDifference
from reproduction.runs import Cell, Contest, Tuned
from reproduction.self_tuning import ENTRIES

DIGITS = 3
NEAR_0, NEAR_END = 0.01, 0.7
"""Of rates of dropout that go from 0 to 0.95, or to 0.75 in AlexNet."""
LOSSES = (("validation loss", "val_loss"), ("test loss", "test_loss"))
Paper = Mapping[str, Any]
ByRun = Mapping[str, Sequence[Record]]
"""Records by the name of the run."""


def _table_8(paper: Paper) -> list[Contest]:
    quantities = (*LOSSES, ("test error (%)", "test_error_percent"))
    rows = {row: (Tuned("stn-alexnet", method), "", numbers) for row, (method, *numbers) in paper["rows"].items()}
    return _by_quantity("AlexNet", next(iter(rows)), rows, quantities)


def _stn_table_1(paper: Paper) -> list[Contest]:
    rows = {
        row: (Tuned("one-dropout", method), prefix, numbers)
        for row, (method, prefix, *numbers) in paper["rows"].items()
    }
    return _by_quantity("one dropout", "STN", rows, LOSSES)


def _stn_table_2(paper: Paper) -> list[Contest]:
    def rows_of(experiment: str, found: Paper) -> dict[str, tuple[Tuned, str, Sequence[str]]]:
        return {row: (Tuned(experiment, method), "", numbers) for row, (method, *numbers) in found.items()}

    text = "PTB, LSTM (perplexity)"
    return [
        *_by_quantity("AlexNet", "STN", rows_of("stn-alexnet", paper["rows"]), LOSSES),
        *_by_quantity(text, "STN", rows_of("stn-lstm", paper["lstm"]), LOSSES, f"{text}: "),
    ]


def _delta_stn_table_1(paper: Paper) -> list[Contest]:
    """ASHA is not in the paper, and stands where something can be run."""
    found = []
    for experiment, (title, *numbers) in paper["rows"].items():
        methods = {**paper["methods"], **(paper["extra"] if "scales" in ENTRIES[experiment] else {})}
        by_method = dict(zip(paper["methods"], zip(numbers[::2], numbers[1::2], strict=True), strict=True))
        rows = {
            word: (Tuned(experiment, method), "", by_method.get(method, (NOTHING, NOTHING)))
            for method, word in methods.items()
        }
        found += _by_quantity(title, "Delta-STN", rows, LOSSES, f"{title}: ")
    return found


def _by_quantity(
    title: str,
    about: str,
    rows: Mapping[str, tuple[Tuned, str, Sequence[str]]],
    quantities: Sequence[tuple[str, str]],
    shown_before: str = "",
) -> list[Contest]:
    """about: the method that the table is about. rows: by name the run, what stands before the names of its quantities,
    and the paper's number of each.
    """

    def cells(number: int, column: str, quantity: str) -> Iterator[tuple[str, Cell]]:
        digits = 2 if "error" in quantity else DIGITS
        for row, (asked, prefix, papers) in rows.items():
            yield row, Cell(f"{shown_before}{row}", column, papers[number], asked, f"{prefix}{quantity}", digits)

    return [
        Contest(f"{title}, {column}", about, tuple(cells(number, column, quantity)))
        for number, (column, quantity) in enumerate(quantities)
    ]


CONTESTS: Mapping[str, Callable[[Paper], list[Contest]]] = MappingProxyType(
    {
        "table-8": _table_8,
        "stn-table-1": _stn_table_1,
        "stn-table-2": _stn_table_2,
        "delta-stn-table-1": _delta_stn_table_1,
    }
)
"""By the name in paper.toml."""


def order_table(contests: Sequence[Contest], records: ByRun) -> pd.DataFrame:
    """A row for each contest with two methods or more: those that the paper has and we ran, in both orders. Ours is of
    means over the seeds that all of them have.
    """
    rows = []
    for contest in contests:
        papers = {method: number for method, cell in contest.methods if (number := number_of(cell.paper)) is not None}
        found = {
            method: own for method, cell in contest.methods if method in papers and (own := by_seed(cell, records))
        }
        seeds = set.intersection(*map(set, found.values())) if len(found) > 1 else set()
        if seeds:
            ours = {method: fmean(own[seed] for seed in seeds) for method, own in found.items()}
            rows.append((contest.title, _in_order({method: papers[method] for method in ours}), _in_order(ours)))
    return pd.DataFrame(rows, columns=["", "paper, best first", "ours, best first"])


def difference_table(contests: Sequence[Contest], records: ByRun) -> pd.DataFrame:
    """Of each contest, every method minus the one that it is about, over the seeds that both have."""
    rows = []
    for contest in contests:
        cells = dict(contest.methods)
        about = cells[contest.about]
        for method, cell in contest.methods:
            found = PairedDifference.of(by_seed(cell, records), minus=by_seed(about, records))
            if found is None or cell is about:
                continue
            first, second = number_of(cell.paper), number_of(about.paper)
            paper = NOTHING if first is None or second is None else f"{first - second:+.{about.digits}f}"
            ours = f"{found.mean:+.{about.digits}f}"
            if found.interval is not None:
                ours += " ({:+.{digits}f} to {:+.{digits}f})".format(*found.interval, digits=about.digits)
            rows.append((contest.title, f"{method} - {contest.about}", paper, ours, str(found.n_pairs)))
    return pd.DataFrame(rows, columns=["", "difference", "paper", "ours (95 % interval)", "n"])


def time_table(contests: Sequence[Contest], records: ByRun) -> pd.DataFrame:
    """A row for each run: seconds of the processor, and whole trainings of those that were begun."""
    asked = dict.fromkeys(cell.asked.name for contest in contests for _, cell in contest.methods)
    rows = []
    for name in asked:
        results = [record.results for record in records.get(name, ())]
        if not results:
            continue
        begun, ended = ([one[count] for one in results if count in one] for count in ("trials", "finished_trials"))
        trainings = f"{fmean(ended):.1f} of {fmean(begun):.1f}" if begun else NOTHING
        rows.append((name, spread_text([one["seconds"] for one in results], 0), trainings, str(len(results))))
    return pd.DataFrame(rows, columns=["run", "seconds", "whole trainings of those begun", "n"])


def rates_table(contests: Sequence[Contest], records: ByRun) -> pd.DataFrame:
    """A row for each run that tunes dropouts: where their rates ended, over all of them and all seeds."""
    asked = dict.fromkeys(cell.asked.name for contest in contests for _, cell in contest.methods)
    rows = []
    for name in asked:
        ended = [
            values[-1]
            for record in records.get(name, ())
            for which, values in dict(record.results.get("values") or {}).items()
            if which.startswith("dropout.") and isinstance(values, list)
        ]
        if ended:
            near_0, near_end = sum(rate < NEAR_0 for rate in ended), sum(rate > NEAR_END for rate in ended)
            rows.append((name, str(len(ended)), spread_text(ended), str(near_0), str(near_end)))
    return pd.DataFrame(rows, columns=["run", "rates", "last value", f"below {NEAR_0}", f"above {NEAR_END}"])


def by_seed(cell: Cell, records: ByRun) -> dict[int, float]:
    """What the runs of a cell found."""
    return {
        record.run.seed: record.results[cell.quantity]
        for record in records.get(cell.asked.name, ())
        if cell.quantity in record.results
    }


def number_of(printed: str) -> float | None:
    """The mean of what a paper printed; None where it has no number."""
    try:
        return float(printed.partition(" ")[0])
    except ValueError:
        return None


def _in_order(numbers: Mapping[str, float]) -> str:
    """Equal ones are joined."""
    ranked = sorted((number, method) for method, number in numbers.items())
    words = [ranked[0][1]]
    for (before, _), (number, method) in pairwise(ranked):
        words.append((" = " if number == before else " < ") + method)
    return "".join(words)
