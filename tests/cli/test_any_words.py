"""Whatever is typed, a command ends in one line at most, and neither with a traceback nor by waiting."""

import os
from collections import Counter

import pytest
from commands import command_of
from fuzzed import COMPUTES, READ, REFUSED, check_command, command_lines, end
from hba.cli.main import COMMANDS
from hypothesis import HealthCheck, given, settings

SLOW = ("doctor", "models", "show")
"""They compute much, whatever their options are."""

FAST = tuple(name for name in COMMANDS if name not in SLOW)
FEW = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True)
def nothing_is_trained(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A search and an evaluation end where they would begin to compute."""

    for name in COMPUTES:
        monkeypatch.setattr(name, end)
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))
    os.mkfifo("pipe")


@FEW
@given(line=command_lines(FAST, command_of))
def test_any_command_line_ends_in_one_line(line: list[str]) -> None:
    check_command(*line)


@pytest.mark.slow
def test_thousands_of_command_lines() -> None:
    """`pytest -m slow -s -n 0 tests/cli/test_any_words.py` prints how they ended."""
    counts: Counter[str] = Counter()

    @settings(FEW, max_examples=2000, database=None)
    @given(line=command_lines(FAST, command_of))
    def lines(line: list[str]) -> None:
        counts[check_command(*line)] += 1

    lines()
    print(f"command lines: {dict(counts)}")
    assert counts.keys() == {READ, REFUSED}
