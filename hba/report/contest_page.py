"""report.html of a contest of the user's own trainings."""

import math
import statistics
from collections.abc import Iterator
from pathlib import Path

from hba.own_training.ledger import Ledger
from hba.own_training.race import EFFORTS, chooses
from hba.own_training.result import ContestResult, read_result
from hba.report.dots import Dots, Row
from hba.report.templates import SIGNS, style, template_of
from hba.results.answer import words_of
from hba.results.statistics import PairedDifference
from hba.results.tables import Table
from hba.utils.devices import VERSION
from hba.utils.text import duration

LEAST_WIDTH = 1e-9
"""Of the scale of scores."""


def contest_page(folder: Path) -> str:
    """The page of the contest in a folder. RunError if it has not ended."""
    result = read_result(folder)
    ledger = Ledger.read(folder)
    page = template_of("contest.html.j2").render(
        title=f"What to use for {folder.resolve().name}",
        result=result,
        sign=SIGNS[result.kind],
        dots=_dots(result),
        has_examples=len(ledger.trainings[0].scores) > 1,
        rounds=_rounds(ledger),
        spent=duration(ledger.spent),
        budget=duration(ledger.budget_seconds),
        style=style(),
        version=VERSION,
    )
    return page.lstrip().encode("utf-8", "backslashreplace").decode()


def _dots(result: ContestResult) -> Dots:
    """Mean scores of the test, the chosen policy first, then the others from the
    highest.
    """
    first = dict(enumerate(result.scores[result.chosen]))
    line = statistics.fmean(first.values())
    rows = [_row(result, name, line) for name in result.scores]
    rows.sort(key=lambda row: (not row.is_marked, -row.number))
    return Dots.of(rows, "score", line, LEAST_WIDTH)


def _row(result: ContestResult, name: str, line: float) -> Row:
    scores = result.scores[name]
    number = statistics.fmean(scores)
    row = Row(
        name,
        number,
        low=number,
        high=number,
        shown=f"{number:.4g}",
        each=tuple(scores),
        is_marked=name == result.chosen,
    )
    first = dict(enumerate(result.scores[result.chosen]))
    minus = PairedDifference.of(first, minus=dict(enumerate(scores)))
    if name == result.chosen or minus is None:
        return row
    row = row._replace(words=f"{words_of(result.chosen)} has {minus.mean:+.3g}")
    if minus.interval is None:
        return row
    low, high = minus.interval
    return row._replace(low=line - high, high=line - low)


def _rounds(ledger: Ledger) -> Table:
    """Mean scores of the examples that choose, by policy and effort; those that got
    furthest and have the highest scores first.
    """
    by_policy = {name: [*_scores(ledger, name)] for name in ledger.definitions}

    def rank(name: str) -> list[float]:
        scores = reversed(by_policy[name])
        return [math.inf if score is None else -score for score in scores]

    headings = ("policy", *(f"effort {effort:.2g}" for effort in EFFORTS))
    return Table(
        headings,
        tuple(
            (
                name + (" ✓" if name == ledger.chosen else ""),
                *("" if score is None else f"{score:.4g}" for score in by_policy[name]),
            )
            for name in sorted(by_policy, key=rank)
        ),
    )


def _scores(ledger: Ledger, name: str) -> Iterator[float | None]:
    """The mean score of a policy with each effort; None if it did not get so far."""
    for effort in EFFORTS:
        seeds = ledger.seeds_of_race
        scores = ledger.scores(name, seeds, effort)
        if not len(scores):
            yield None
            continue
        yield float(scores[:, chooses(scores.shape[1])].mean())
