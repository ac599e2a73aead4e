"""Commands of hba in processes of their own, which can be disturbed, killed and watched."""

import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Protocol

SECONDS_TO_END = 120.0
"""After which a command hangs."""

ERROR, KEPT, WARNING = "hba: error: ", "trainings that ended: ", "hba: warning: "
"""How a line begins that tells a user what went wrong, what is kept, or that a run is whole without its report."""

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["hba.cli.show", "hba.cli.apply", "hba.cli.export", "fault.warm"])


class Disturbance(Protocol):
    """Done in the process of a command before it begins. It can be pickled."""

    def begin(self) -> None: ...


@dataclass(frozen=True)
class Ended:
    """How a command ended. code: below zero for a signal, None where it had to be ended."""

    code: int | None
    printed: str
    message: str

    @property
    def wrong(self) -> str | None:
        """What a user should not meet: a hang, a traceback, more than a line for what went wrong, or none at all."""
        if self.code is None:
            return "it hangs"
        if self.code < 0:
            return None
        lines = self.message.splitlines()
        if any(not line.startswith((ERROR, KEPT, WARNING)) for line in lines):
            return f"it prints {lines[-1]!r}"
        if (self.code != 0) != (bool(lines) and lines[-1].startswith(ERROR)):
            return f"it ends with code {self.code} and says {self.message!r}"
        return None


class Command:
    """A command on its way."""

    def __init__(self, words: Sequence[str], disturbance: Disturbance | None = None) -> None:
        self._texts = Path(tempfile.mkdtemp(prefix="hba-command-"))
        self.process: BaseProcess = CONTEXT.Process(target=_run, args=(list(words), self._texts, disturbance))
        self.process.start()

    def ended(self, seconds: float = SECONDS_TO_END) -> Ended:
        """Wait for its end, which is brought about where it takes longer than that."""
        self.process.join(seconds)
        hangs = self.process.exitcode is None
        if hangs:
            self.kill()
        out, err = (_text(self._texts / name) for name in ("out", "err"))
        shutil.rmtree(self._texts, ignore_errors=True)
        return Ended(None if hangs else self.process.exitcode, out, err)

    def kill(self) -> None:
        if self.process.exitcode is None:
            os.kill(self.process.pid or 0, signal.SIGKILL)
        self.process.join()

    def workers(self) -> list[int]:
        """Processes that it has started, but those that only watch."""
        pid = self.process.pid
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
        except OSError:
            return []
        return [int(child) for child in children if "resource_tracker" not in _text(Path(f"/proc/{child}/cmdline"))]


def run(words: Sequence[str], disturbance: Disturbance | None = None) -> Ended:
    return Command(words, disturbance).ended()


def wait_until(holds: Path, command: Command, seconds: float = SECONDS_TO_END) -> None:
    """Until a file is there, or the command has ended."""
    end = time.monotonic() + seconds
    while not holds.exists() and command.process.exitcode is None and time.monotonic() < end:
        time.sleep(0.01)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _run(words: list[str], texts: Path, disturbance: Disturbance | None) -> None:
    for name, stream in (("out", sys.stdout), ("err", sys.stderr)):
        descriptor = os.open(texts / name, os.O_WRONLY | os.O_CREAT)
        os.dup2(descriptor, stream.fileno())
    import torch
    from hba.cli import main

    from hba.policy_search import checkpointer

    torch.set_num_threads(1)
    # A save after every epoch makes it likely that a fault hits one.
    checkpointer.SAVE_EVERY_SECONDS = 0.0
    if disturbance is not None:
        disturbance.begin()
    main(words)


def run_forked(words: Sequence[str]) -> Ended:
    """A command in a process that is forked from this one, and so sees the disks that this one sees."""
    texts = Path(tempfile.mkdtemp(prefix="hba-command-"))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _run(list(words), texts, None)
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return Ended(os.waitstatus_to_exitcode(status), _text(texts / "out"), _text(texts / "err"))
