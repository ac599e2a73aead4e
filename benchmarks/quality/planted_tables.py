"""What the planted problems say of candidates, as tables."""

import statistics
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from quality.ends import PROBABILITY, STRENGTH
from quality.planted_search import others_probability, ranks, recovered
from quality.rates import rate_text
from quality.records import Kept

Records = Sequence[tuple[str, Kept]]
"""Candidate and one of its runs."""

RATE_HEADINGS = ("all", "elsewhere", "mean rank", "by strength", "planted p", "others p", "val error %", "s")


def _planted(records: Records) -> list[Kept]:
    return [kept for _, kept in records if kept.run["planted"]]


def rate_rows(records: Records) -> tuple[list[str], list[list[str]]]:
    """Headings, and for each candidate its recovery by problem and over all problems, then means over all runs."""
    problems = list(dict.fromkeys(kept.run["problem"] for kept in _planted(records)))
    rows = []
    operations = {one["operation"] for kept in _planted(records) for one in kept.run["planted"]}
    for candidate in dict.fromkeys(name for name, _ in records):
        own = [(name, kept) for name, kept in records if name == candidate]
        by_problem = [[kept for kept in _planted(own) if kept.run["problem"] == problem] for problem in problems]
        rates = [rate_text([_is_recovered(kept) for kept in runs]) for runs in by_problem]
        rows.append([candidate, *rates, *_overall(own, operations)])
    return ["candidate", *problems, *RATE_HEADINGS], rows


def _is_recovered(kept: Kept) -> bool:
    return recovered(kept.results, kept.run["planted"])


def _first_elsewhere(kept: Kept, operations: AbstractSet[str]) -> list[bool]:
    """Of the operations that are planted in other problems than the run's, whether each is among the first."""
    others = operations - {one["operation"] for one in kept.run["planted"]}
    return [recovered(kept.results, [{"operation": name}]) for name in sorted(others)]


def _overall(records: Records, operations: AbstractSet[str]) -> list[str]:
    runs = _planted(records)
    errors = statistics.mean(kept.results["val_error_percent"] for _, kept in records)
    seconds = statistics.median(kept.results["seconds"] for _, kept in records)
    last = [f"{errors:.1f}", f"{seconds:.1f}"]
    if not runs:
        return ["-"] * (len(RATE_HEADINGS) - len(last)) + last
    own_ranks, by_strength, own, others = [], [], [], []
    for kept in runs:
        planted = kept.run["planted"]
        own_ranks += ranks(kept.results, planted)
        by_strength += ranks(kept.results, planted, STRENGTH)
        own += [kept.results["end"][one["operation"]][PROBABILITY] for one in planted]
        others.append(others_probability(kept.results, planted))
    means = [f"{statistics.mean(values):.1f}" for values in (own_ranks, by_strength)]
    probabilities = [f"{statistics.mean(values):.3f}" for values in (own, others)]
    elsewhere = [is_first for _, kept in records for is_first in _first_elsewhere(kept, operations)]
    share = f"{100 * statistics.mean(elsewhere):.0f} %" if elsewhere else "-"
    return [rate_text([_is_recovered(kept) for kept in runs]), share, *means, *probabilities, *last]


def run_rows(records: Records) -> list[list[str]]:
    """One row for each run and planted operation, with RUN_HEADINGS; a run of the control has one row."""
    rows = []
    for candidate, kept in records:
        results, planted = kept.results, kept.run["planted"]
        first = [candidate, kept.run["problem"], str(kept.run["seed"])]
        others = f"{others_probability(results, planted):.3f}"
        last = [others, f"{results['val_error_percent']:.1f}", f"{results['seconds']:.1f}"]
        for number, one in enumerate(planted):
            end = results["end"][one["operation"]]
            rank, by_strength = (ranks(results, planted, measure)[number] for measure in (PROBABILITY, STRENGTH))
            magnitude = "-" if end["magnitude"] is None else f"{end['magnitude']:.3g}"
            own = [one["operation"], str(rank), str(by_strength), f"{end[PROBABILITY]:.3f}", magnitude]
            rows.append([*first, *own, *last])
        if not planted:
            rows.append([*first, *["-"] * 5, *last])
    return rows


RUN_HEADINGS = (
    "candidate",
    "problem",
    "seed",
    "planted",
    "rank",
    "by strength",
    "p",
    "magnitude",
    "others p",
    "val error %",
    "s",
)
