"""Whatever is typed, a command ends in one line at most, and neither with a traceback nor by waiting."""

import os
import warnings
from collections import Counter
from typing import Any

import pytest
from commands import command_of, run
from fuzz.inputs import command_lines
from hba.cli.main import COMMANDS
from hypothesis import HealthCheck, given, settings

from hba.errors import RunError

SLOW = ("doctor", "models", "show")
"""They compute much, whatever their options are."""

FAST = tuple(name for name in COMMANDS if name not in SLOW)
FEW = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True)
def nothing_is_trained(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A search and an evaluation end where they would begin to compute."""

    def end(*_: Any) -> None:
        raise RunError("the end")

    monkeypatch.setattr("hba.policy_search.loop.Loop.run", end)
    monkeypatch.setattr("hba.policy_evaluation.run._train_all", end)
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))
    os.mkfifo("pipe")


def check(line: list[str]) -> int:
    with warnings.catch_warnings():
        result = run(*line)
    assert isinstance(result.exception, SystemExit | None), (line, result.exception)
    assert "Traceback" not in result.output
    if result.exit_code:
        assert result.stderr.splitlines()[-1].startswith(("hba: error: ", "Error: ")), (line, result.stderr)
    return result.exit_code


@FEW
@given(line=command_lines(FAST, command_of))
def test_any_command_line_ends_in_one_line(line: list[str]) -> None:
    check(line)


@pytest.mark.slow
def test_thousands_of_command_lines() -> None:
    """`pytest -m slow -s -n 0 tests/cli/test_any_words.py` prints how they ended."""
    codes: Counter[int] = Counter()

    @settings(FEW, max_examples=2000, database=None)
    @given(line=command_lines(FAST, command_of))
    def lines(line: list[str]) -> None:
        codes[check(line)] += 1

    lines()
    print(f"command lines by exit code: {dict(codes)}")
    assert codes.keys() >= {0, 2}


@pytest.mark.parametrize(
    "line",
    [
        ["show", "x" * 5000],
        ["search", "x" * 5000],
        ["evaluate", "digits", "x" * 5000],
        ["evaluate", "digits", "--against", "x" * 5000],
        ["evaluate", "digits", "--out", "x" * 5000],
        ["apply", "digits", "x" * 5000, "--out", "a.png"],
        ["export", "digits", "--to", "json", "--out", "\udcff"],
        ["export", "digits", "--to", "json", "--out", "x" * 5000],
        ["show", "a\nb\x1b[31m"],
        ["show", "pipe"],
        ["search", "--classes", "pipe"],
        ["export", "digits", "--to", "json", "--out", "pipe"],
        ["search", "--model", "wrn-10-100000000"],
        ["search", "--epochs", "1000000000"],
    ],
    ids=lambda line: " ".join(line)[:30],
)
def test_what_once_ended_otherwise(line: list[str]) -> None:
    check(line)
