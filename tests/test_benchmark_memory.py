"""The memory of steps: what is counted, until when, and the table."""

from typing import Any

import pytest
import torch
from benchmark_modules import module
from torch.profiler import record_function

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")
CPU = torch.device("cpu")
KILOBYTES = 1000


def test_the_peak_is_what_was_held_at_a_time_before_the_mark() -> None:
    memory = module("memory")

    def call() -> None:
        first = torch.zeros(30 * KILOBYTES, dtype=torch.uint8)
        second = torch.zeros(50 * KILOBYTES, dtype=torch.uint8)
        del first
        third = torch.zeros(20 * KILOBYTES, dtype=torch.uint8)
        with record_function(memory.AFTER_STEPS):
            pass
        torch.zeros(500 * KILOBYTES, dtype=torch.uint8)
        del second, third

    assert memory.peak_bytes(call, CPU) == pytest.approx(80 * KILOBYTES, abs=KILOBYTES)


def test_a_search_and_a_training_take_the_steps_that_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = module("memory")
    shared = {"model": "wrn-10-1", "image_size": 8, "batch_size": 4, "device": "cpu", "data": "noise"}
    calls = memory._calls({**shared, "learning_rate": 0.01})
    assert set(calls) == {memory.PLAIN, *module("steps.floors").FLOORS}
    steps: list[int] = []
    monkeypatch.setattr("torch.optim.SGD.step", counted(torch.optim.SGD.step, steps))
    for name in (memory.PLAIN, "lookahead"):
        steps.clear()
        assert memory.peak_bytes(calls[name], CPU) > 0
        assert len(steps) == memory.STEPS, name


def counted(step: Any, steps: list[int]) -> Any:
    def wrapped(*arguments: Any, **named: Any) -> Any:
        steps.append(1)
        return step(*arguments, **named)

    return wrapped


def test_the_page_has_the_table_of_what_is_kept() -> None:
    memory, records = module("memory"), module("common.records")
    text = (records.DOCS / "speed.md").read_text(encoding="utf-8")
    kept = records.newest_of_each_size(records.RESULTS, memory.QUESTION)
    assert kept
    assert module("common.pages").placed(text, memory.MARK, memory.table_of(kept)) == text


def test_the_table_has_a_training_in_megabytes_and_the_others_as_ratios() -> None:
    memory, records = module("memory"), module("common.records")
    found = {memory.PLAIN: 2_000_000, **dict.fromkeys(module("steps.floors").FLOORS, 3_000_000)}
    run = records.Run("memory", "noise", {"model": "wrn-10-1", "image_size": 16, "batch_size": 100}, 0)
    made = {"device": "cpu", "device_name": "A", "n_threads": 1, "packages": {"torch": "2.14.1"}, "commit": "c"}
    table = memory.table_of([records.Record(run, found, made)])
    assert "| wrn-10-1, 16 pixels | 2.0 MB | 1.50 |" in table
    assert "`c`" in table
    assert memory.table_of([]) == "Nothing was run."
