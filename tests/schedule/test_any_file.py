"""Whatever a schedule's file or a log of PBA holds, it is read or refused in one line."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from fuzzed.checks import READ, check_log, check_schedule
from fuzzed.inputs import GOOD, logs, schedule_texts, short_schedule
from hypothesis import HealthCheck, given, settings
from peak_memory import printed_by

import hba
from hba.errors import ScheduleError
from hba.importers.pba import pba_segments

FEW = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
MOST_BYTES = 2 * 10**9
"""In memory, for a file of 100 MB."""


@FEW
@given(text=schedule_texts())
def test_any_schedule_file_is_read_or_refused_in_one_line(text: str, tmp_path: Path) -> None:
    check_schedule(text, tmp_path)


@FEW
@given(text=logs())
def test_any_log_of_pba_is_read_or_refused_in_one_line(text: str) -> None:
    check_log(text)


@pytest.mark.slow
def test_thousands_of_files(tmp_path: Path) -> None:
    """`pytest -m slow -s -n 0 tests/schedule/test_any_file.py` prints how many were tried."""
    counts: Counter[str] = Counter()

    @settings(FEW, max_examples=5000, database=None)
    @given(text=schedule_texts())
    def schedules(text: str) -> None:
        counts[f"schedule files {check_schedule(text, tmp_path)}"] += 1

    @settings(FEW, max_examples=5000, database=None)
    @given(text=logs())
    def all_logs(text: str) -> None:
        counts[f"logs of PBA {check_log(text)}"] += 1

    schedules()
    all_logs()
    print(dict(counts))
    assert min(counts.values()) > 100, counts


@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}"), ("-", ""), ("(", ")")])
def test_what_lies_a_hundred_thousand_deep_is_refused(begin: str, end: str, tmp_path: Path) -> None:
    text = begin * 100_000 + "1" + end * 100_000
    (tmp_path / "policy.json").write_text(text)
    with pytest.raises(ScheduleError, match=r"policy\.json is not a valid schedule: not JSON"):
        hba.load_policy(tmp_path / "policy.json")
    with pytest.raises(ScheduleError, match="line 1: "):
        pba_segments(text, 10)


def test_a_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text(GOOD.replace('"epochs"', '"epochs": 3, "epochs"', 1))
    with pytest.raises(ScheduleError, match="the key 'epochs' stands twice in a mapping"):
        hba.load_policy(tmp_path / "policy.json")


def test_provenance_may_be_anything_deep(tmp_path: Path) -> None:
    content = json.dumps({**short_schedule(), "provenance": {"x": 0}})
    assert check_schedule(content.replace('{"x": 0}', '{"x":' * 900 + "0" + "}" * 900), tmp_path) == READ


CODE = """
import sys, hba
try:
    hba.load_policy(sys.argv[1])
except hba.errors.HbaError as error:
    print(error)
print(peak_bytes())
"""


@pytest.mark.slow
@pytest.mark.parametrize("part", ["[],", "{},", "0,", "1.5,", '"ab",', " ", "\\n"])
def test_a_file_of_a_hundred_megabytes_takes_no_gigabytes(part: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text("[" + part * (10**8 // len(part)) + "0]")
    message, peak = printed_by(CODE, path)
    assert "is not a valid schedule" in message
    assert int(peak) < MOST_BYTES


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_and_a_device_in_the_place_of_a_file_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "device.json").symlink_to("/dev/zero")
    for path in (tmp_path / "pipe.json", tmp_path / "device.json"):
        with pytest.raises(ScheduleError, match="it is no regular file; give another file"):
            hba.load_policy(path)
