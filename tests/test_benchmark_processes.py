"""The table of several processes beside one."""

from typing import Any

import pytest
from benchmark_modules import module
from test_benchmark_records import record_of

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")


def of(n: int, number: int, **results: Any) -> Any:
    settings = {"algorithm": "hba", "epochs": 6, "image-size": 16, "model": "wrn-10-1"}
    run = module("common.records").Run("alike", "digits", settings, number, {"processes": n, "threads": 1})
    return record_of(run, **results)


def test_the_table_has_ratios_of_the_same_round() -> None:
    records = [
        *(of(1, number, seconds=seconds, difference=0.0) for number, seconds in enumerate((4.0, 8.0))),
        *(of(2, number, seconds=seconds, difference=0.1 * seconds) for number, seconds in enumerate((2.0, 5.0))),
    ]
    kill = module("common.records").Run("kill", "digits", {"algorithm": "lookahead"}, 0, {"rank": 1, "epoch": 5})
    lines = module("processes").table_of([*records, record_of(kill, same=True)]).splitlines()
    assert lines[2] == "| `hba` | 16x16, wrn-10-1 | 2 | 1 | 0.500 | 1.80 ± 0.28 | 2 |"
    assert lines[-1] == "Killed: 1 searches of two processes; 1 found the same."


def test_the_page_has_the_table_of_what_is_kept() -> None:
    records, processes = module("common.records"), module("processes")
    kept = list(records.store_of(records.RESULTS, processes.QUESTION).by_key().values())
    text = (records.DOCS / "searching.md").read_text(encoding="utf-8")
    assert module("common.pages").placed(text, processes.MARK, processes.table_of(kept)) == text
