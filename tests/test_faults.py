"""What a run survives: the benchmark finds no loss, and would find one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmark_modules import BENCHMARKS, module

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")


@pytest.mark.parametrize(
    ("code", "message", "wrong"),
    [
        (0, "", None),
        (-9, "", None),
        (2, "hba: error: no such folder\n", None),
        (2, "trainings that ended: 1, in a\nhba: error: no space\n", None),
        (None, "", "it hangs"),
        (1, "Traceback (most recent call last):\n  File\nKeyError: 'a'\n", "it prints \"KeyError: 'a'\""),
        (2, "", "it ends with code 2 and says ''"),
        (0, "a.py:3: UserWarning: no\n", "it prints 'a.py:3: UserWarning: no'"),
    ],
)
def test_what_a_user_should_not_meet_is_seen(code: int | None, message: str, wrong: str | None) -> None:
    assert module("fault.commands").Ended(code, "", message).wrong == wrong


@pytest.mark.parametrize(
    ("name", "content"),
    [("config.json", '{"a": 1'), ("metrics.csv", "a,b\n1\n"), ("policy.json", "{}"), ("checkpoint.pt", "PK")],
)
def test_a_half_written_file_is_seen(name: str, content: str, tmp_path: Path) -> None:
    half_written = module("fault.subjects").half_written
    assert half_written(tmp_path) is None
    (tmp_path / name).write_text(content)
    assert half_written(tmp_path).startswith(f"{name} is half written (")


def test_the_kept_trials_lost_nothing() -> None:
    lines = (BENCHMARKS / "results" / "faults.jsonl").read_text(encoding="utf-8").splitlines()
    found = {record["name"]: record["results"] for record in map(json.loads, lines)}
    assert found.keys() == module("faults").FAULTS.keys()
    assert {name: one["losses"] for name, one in found.items() if one["losses"]} == {}
    assert min(one["tried"] for one in found.values()) > 0


@pytest.mark.slow
def test_a_few_of_each_fault_lose_nothing() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "faults.py"), "--quick"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n| ") == len(module("faults").FAULTS) + 1
