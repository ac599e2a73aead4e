"""The table of several processes beside one."""

from pathlib import Path
from typing import Any

import pytest
from benchmark_modules import module
from click.testing import CliRunner
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


def test_a_search_that_fails_after_a_kill_is_kept_and_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = module("processes")
    begun: list[str] = []

    class Ends:
        """A launcher whose processes have ended already."""

        pid, returncode = 0, 0

        def poll(self) -> int:
            return 0

        def communicate(self) -> tuple[str, str]:
            return "", ""

        def kill(self) -> None:
            pass

    def start(settings: Any, n: int, out: Path, **further: Any) -> Ends:
        begun.append(out.name)
        return Ends()

    monkeypatch.setattr(processes, "begun", start)
    words = ["kills", "--kills", "2", "--results", str(tmp_path)]
    for _ in range(2):
        assert CliRunner().invoke(processes.main, words).exit_code == 0
    kept = module("common.records").store_of(tmp_path, processes.QUESTION).by_key().values()
    assert [dict(one.results) for one in kept] == 2 * [{"same": False, "failed": kept_reason(kept)}]
    assert begun == ["undisturbed", "0", "1", "undisturbed"]


def kept_reason(kept: Any) -> str:
    (reason,) = {one.results["failed"] for one in kept}
    assert "there is no process" in reason
    return str(reason)
