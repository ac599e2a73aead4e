"""The table of steps in bfloat16 beside those in single precision."""

from pathlib import Path
from typing import Any

import pytest
from benchmark_modules import module
from click.testing import CliRunner
from test_benchmark_records import record_of

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")


def test_the_table_has_ratios_of_the_same_round() -> None:
    settings = {"model": "wrn-10-1", "image_size": 16, "batch_size": 100, "device": "cpu", "steps": 20, "rounds": 2}
    results: dict[str, Any] = {"training": [4.0, 6.0], "training, fast": [2.0, 2.0]}
    results |= {"search": [1.0, 1.0], "search, fast": [0.5, 1.0]}
    record = record_of(module("common.records").Run("fast", "noise", settings, 0), **results)
    record.made_by.update({"device": "cpu", "n_threads": 1, "packages": {"torch": "2"}, "commit": "abc"})
    lines = module("fast").table_of([record]).splitlines()
    assert lines[-2] == ("| wrn-10-1, 16 pixels | a training | 5.0000 ± 1.4142 | 2.0000 ± 0.0000 | 2.50 ± 0.71 | 2 |")
    assert "1.50 ± 0.71" in lines[-1]


def test_a_run_keeps_the_seconds_of_all_four(tmp_path: Path) -> None:
    words = ["run", "--sizes", "wrn-10-1:8", "--batch-size", "4", "--rounds", "1", "--steps", "8", "--device", "cpu"]
    done = CliRunner().invoke(module("fast").main, [*words, "--results", str(tmp_path)])
    assert done.exit_code == 0, done.output
    (record,) = module("common.records").store_of(tmp_path, "fast").by_key().values()
    assert all(len(seconds) == 1 and seconds[0] > 0 for seconds in record.results.values())
    assert set(record.results) == {"training", "training, fast", "search", "search, fast"}


def test_the_page_has_the_table_of_what_is_kept() -> None:
    records, fast = module("common.records"), module("fast")
    text = (records.DOCS / "speed.md").read_text(encoding="utf-8")
    kept = records.newest_of_each_size(records.RESULTS, fast.QUESTION)
    assert module("common.pages").placed(text, fast.MARK, fast.table_of(kept)) == text
