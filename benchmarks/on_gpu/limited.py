"""Programs that get some minutes: what they have not done by then goes on in the next call."""

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LAST_SECONDS = 40.0
"""For a program to save what it has, once it is asked to stop."""
LINES = 8


@dataclass(frozen=True)
class Ended:
    """code: of the program; None where its time was over. told: its last lines. seconds: how long it ran."""

    code: int | None
    told: str
    seconds: float


class StageError(Exception):
    """A program that failed, in its last lines."""


def run_within(words: Sequence[str | Path], seconds: float, log: Path) -> Ended:
    """Run a Python program; ask it by SIGINT to stop when its time is over, and end it where it does not."""
    log.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with log.open("a", encoding="utf-8") as file:
        process = subprocess.Popen([sys.executable, *map(str, words)], stdout=file, stderr=subprocess.STDOUT)
        try:
            code: int | None = process.wait(max(1.0, seconds - LAST_SECONDS))
        except subprocess.TimeoutExpired:
            code = None
            process.send_signal(signal.SIGINT)
            try:
                process.wait(LAST_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return Ended(code, "\n".join(lines[-LINES:]), time.monotonic() - began)


def finished(words: Sequence[str | Path], seconds: float, log: Path) -> bool:
    """Whether the program came to its end within its time. Raises StageError where it failed."""
    ended = run_within(words, seconds, log)
    if ended.code:
        raise StageError(ended.told)
    return ended.code == 0
