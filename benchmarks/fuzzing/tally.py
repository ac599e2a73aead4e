"""Many inputs of one kind, and what came of them: a process watches itself."""

import contextlib
import faulthandler
import os
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import hypothesis
import torch
from fuzzed.checks import COMPUTES, end

from fuzzing.kinds import KINDS

SECONDS = 10.0
"""Of computing, after which an input hangs."""
WAITING = 60.0
"""Seconds by the clock, after which it hangs too: other programs may compute beside it."""
PATIENCE = 60.0
"""Seconds after that, in which a process has to end what hangs."""
MEBIBYTES = 1024
"""More than the process had before are too many for an input."""
N_EXAMPLES = 5
"""Of what went wrong, that are kept."""
TRACEBACK, HANG, MEMORY, WORDS, DIED = "traceback", "hang", "memory", "words", "died"
"""What can go wrong: another error than one of hba's; an input that takes too long, or too much memory; another message
than one line; the end of the process.
"""
WRONG = (TRACEBACK, HANG, MEMORY, WORDS, DIED)


@dataclass
class Tally:
    """counts: of inputs, by what came of them. slowest: seconds of computing for one. most_mebibytes: that one took.
    seconds: of computing, for all of them.
    """

    tried: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    slowest: float = 0.0
    most_mebibytes: int = 0
    seconds: float = 0.0

    @property
    def wrong(self) -> int:
        return sum(self.counts[what] for what in WRONG)

    def note(self, what: str, example: str = "") -> None:
        self.counts[what] += 1
        if what in WRONG and len(self.examples) < N_EXAMPLES:
            self.examples.append(f"{what}: {example}")


class _HangsError(BaseException):
    """No handler of errors may take it for one of an input."""


def died(error: Exception) -> Tally:
    """Of a kind whose process ended, and of those that were to come after it in that."""
    found = Tally()
    found.note(DIED, str(error))
    return found


def tried(name: str, place: Path, amount: float, seed: int) -> Tally:
    """Of the kind of that name, in the first thread of this process. amount: inputs for a share of one."""
    torch.set_num_threads(1)
    folder, kind, tally = Path(tempfile.mkdtemp(dir=place)), KINDS[name], Tally()
    os.chdir(folder)
    os.mkfifo("pipe")
    check, begun = kind.check(folder), time.process_time()

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=max(1, round(amount * kind.share)),
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(given=kind.inputs(place))
    def all_inputs(given: Any) -> None:
        try_one(check, given, tally, errors)

    with contextlib.ExitStack() as stack:
        errors = stack.enter_context(_caught_errors())
        for computes in COMPUTES:
            stack.enter_context(mock.patch(computes, end))
        stack.enter_context(interrupted())
        all_inputs()
    tally.seconds = round(time.process_time() - begun, 1)
    return tally


@contextlib.contextmanager
def interrupted() -> Iterator[None]:
    """Here, the timers of an input end it."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise _HangsError

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGALRM, signal.SIGPROF)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def try_one(check: Callable[[Any], str], given: Any, tally: Tally, errors: Path) -> None:
    """Note what came of one input, where they are `interrupted`. errors: the file that standard error goes to."""
    tally.tried += 1
    before, begun = _forget_most_memory(), time.process_time()
    # These interrupt Python; the last ends a decoder that does not return to it.
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, WAITING)
    faulthandler.dump_traceback_later(WAITING + PATIENCE, exit=True)
    what, example = "", repr(given)[:500]
    try:
        what = check(given)
    except _HangsError:
        what = HANG
    except AssertionError as error:
        what, example = WORDS, f"{str(error)[:1000]} for {example}"
    except BaseException as error:
        # Any error at all is what is looked for.
        what, example = TRACEBACK, f"{''.join(traceback.format_exception(error))[-1500:]} for {example}"
    finally:
        for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
            signal.setitimer(timer, 0)
        faulthandler.cancel_dump_traceback_later()
    tally.slowest = max(tally.slowest, round(time.process_time() - begun, 2))
    taken = _most_memory() - before
    tally.most_mebibytes = max(tally.most_mebibytes, taken)
    if errors.stat().st_size:
        what, example = WORDS, f"it prints {errors.read_text('utf-8', errors='replace')[:500]!r} for {example}"
        os.truncate(errors, 0)
    if taken > MEBIBYTES and what not in WRONG:
        what = MEMORY
    tally.note(what, example)


@contextlib.contextmanager
def _caught_errors() -> Iterator[Path]:
    """The file that all of this process's standard error goes to, also of libraries in C."""
    path = Path("errors").resolve()
    before = os.dup(2)
    written = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(written, 2)
    try:
        yield path
    finally:
        os.dup2(before, 2)


def _forget_most_memory() -> int:
    """So that the most that is taken from now on is seen; what is taken now, in MiB."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return _most_memory()


def _most_memory() -> int:
    """MiB of this process in memory at most, as Linux counts; 0 elsewhere."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) // 1024
    return 0
