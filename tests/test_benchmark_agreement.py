"""How alike searches moved: figures that can be worked out by hand, and which searches they are of."""

from pathlib import Path
from typing import Any

import pytest
from benchmark_modules import module

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")
SETTINGS = {"epochs": 7, "train_size": 250, "batch_size": 100, "train_steps": 5}


def searched(seed: int, rises: list[float], name: str = "strength", **others: Any) -> Any:
    records = module("common.records")
    end = {f"operation {number}": {"rise": rise} for number, rise in enumerate(rises)}
    run = {"dataset": "digits", "settings": SETTINGS, "further": {}, **others}
    return records.Record(records.Run(name, seed=seed, **run), {"end": end}, {})


def row_of(*rises: list[float]) -> list[str]:
    table = module("quality.agreement").agreement_table([[searched(seed, one) for seed, one in enumerate(rises)]])
    (row,) = table.values.tolist()
    return list(row)


def test_moves_and_correlations_are_means_over_searches_and_pairs() -> None:
    # 3 batches in an epoch, 21 steps. The correlations of three pairs are 1, -1 and -1.
    assert row_of([1.0, 0.0, -1.0], [2.0, 0.0, -2.0], [-1.0, 0.0, 1.0]) == [
        *("digits", "strength", "3", "4"),
        *("0.89", "-0.33"),
    ]


def test_a_common_move_of_all_operations_is_no_agreement_on_which() -> None:
    assert row_of([3.0, 2.0, 1.0], [1.0, 2.0, 3.0])[-1] == "-1.00"


def test_where_nothing_moved_there_is_no_correlation() -> None:
    assert row_of([0.0, 0.0], [1.0, 2.0])[-1] == "-"


def test_one_search_agrees_with_nobody() -> None:
    assert module("quality.agreement").agreement_table([[searched(0, [1.0, 2.0])]]).empty


def test_searches_of_the_newest_planned_verdict_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, candidates = module("quality.kept"), module("quality.candidates")
    default, former = candidates.DEFAULT, candidates.FORMER
    monkeypatch.setattr(kept, "is_of", lambda *_: True)
    records = [searched(seed, [1.0, 2.0], name) for seed in (3, 1000, 2000, 2001) for name in (default, "paper")]
    records += [searched(seed, [1.0, 2.0], former) for seed in (1001, 2001)]
    module("common.records").store_of(tmp_path, "searches").add(*records)
    found = kept.searches_of_verdicts(tmp_path)
    assert [[(one.run.name, one.run.seed) for one in group] for group in found] == [
        [(default, 2000), (default, 2001)],
        [(former, 2001)],
    ]
