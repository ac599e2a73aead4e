"""Input that nobody should give: the benchmark finds nothing wrong, and would find what is."""

import gc
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from benchmark_modules import BENCHMARKS, module

from hba.errors import DataError

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")
CAN_FORGET = Path("/proc/self/clear_refs")


def broken(given: Any) -> str:
    raise ValueError("a bug")


def slow(given: Any) -> str:
    time.sleep(10)
    return "read"


def large(given: Any) -> str:
    # Zeros would not be in memory before they are looked at.
    assert len(b"x" * 2**27)
    return "read"


@pytest.mark.parametrize(
    ("check", "what"),
    [
        (broken, "traceback"),
        (slow, "hang"),
        pytest.param(large, "memory", marks=pytest.mark.skipif(not CAN_FORGET.exists(), reason="needs Linux")),
        (lambda given: "read", "read"),
    ],
)
def test_what_came_of_an_input_is_seen(check: Any, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tally = module("fuzzing.tally")
    for name, limit in (("WAITING", 1.0), ("MEBIBYTES", 64)):
        monkeypatch.setattr(tally, name, limit)
    (tmp_path / "errors").touch()
    found = tally.Tally()
    # What the tests before have left would be let go of at any time, and weigh against what is taken.
    gc.collect()
    with tally.interrupted():
        tally.try_one(check, "given", found, tmp_path / "errors")
    assert dict(found.counts) == {what: 1}
    assert found.wrong == (what != "read")


def test_what_is_printed_beside_the_one_line_is_seen(tmp_path: Path) -> None:
    tally = module("fuzzing.tally")
    (tmp_path / "errors").write_text("More samples per pixel\n", encoding="utf-8")
    found = tally.Tally()
    with tally.interrupted():
        tally.try_one(lambda given: "refused", "given", found, tmp_path / "errors")
    assert dict(found.counts) == {"words": 1}
    assert (tmp_path / "errors").read_bytes() == b""


def test_a_message_of_two_lines_is_no_refusal() -> None:
    from fuzzed.checks import REFUSED, ending_of

    def read() -> None:
        raise DataError("one line")

    def two() -> None:
        error = DataError()
        error.args = ("one\nand another",)
        raise error

    assert ending_of(read, print) == REFUSED
    with pytest.raises(AssertionError, match="another"):
        ending_of(two, print)


def test_a_few_inputs_of_each_kind_are_read_or_refused() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "fuzz.py"), "--quick"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n| ") == len(module("fuzzing.kinds").KINDS) + 2
