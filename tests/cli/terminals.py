"""Commands in a terminal of their own, and what then stands on its screen."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

PROGRAM = "from hba.cli import main; main()"
TOKEN = re.compile(r"\x1b\[(\??[\d;]*)([A-Za-z])|\x1b.|.", re.DOTALL)
N_ROWS = 40


@dataclass
class Screen:
    """What a terminal of that width shows after some text; as much of its language as progress bars speak."""

    width: int
    lines: list[str] = field(default_factory=lambda: [""])
    row: int = 0
    column: int = 0

    def write(self, text: str) -> None:
        for token in TOKEN.finditer(text):
            if token[2] is not None:
                self._control(token[1], token[2])
            elif token[0] == "\n":
                self._next_row()
            elif token[0] == "\r":
                self.column = 0
            else:
                assert token[0].isprintable(), f"unknown to this screen: {token[0]!r}"
                self._put(token[0])

    def _next_row(self) -> None:
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append("")

    def _put(self, character: str) -> None:
        if self.column == self.width:
            self._next_row()
            self.column = 0
        line = self.lines[self.row].ljust(self.column)
        self.lines[self.row] = line[: self.column] + character + line[self.column + 1 :]
        self.column += 1

    def _control(self, numbers: str, kind: str) -> None:
        if kind == "A":
            self.row -= int(numbers or 1)
        elif kind == "K":
            assert numbers == "2"
            self.lines[self.row] = ""
        else:
            # Colours, and whether the cursor is seen.
            assert kind in "mhl", f"unknown to this screen: {numbers}{kind}"

    def shown(self) -> list[str]:
        return [line.rstrip() for line in self.lines if line.strip()]


@dataclass
class Ended:
    """A command that ran in a terminal: its exit code, all that it wrote there, and what is seen in the end."""

    exit_code: int
    written: str
    lines: list[str]


def in_a_terminal(
    arguments: Sequence[str],
    folder: Path,
    *,
    program: str = PROGRAM,
    width: int = 80,
    stdout: Path | None = None,
    interrupt_at: str | None = None,
) -> Ended:
    """Run the program with standard error, and without `stdout` also standard output, in a terminal.

    interrupt_at: Ctrl-C is pressed when this has been written.
    """
    terminal, its_own = pty.openpty()
    fcntl.ioctl(its_own, termios.TIOCSWINSZ, struct.pack("HHHH", N_ROWS, width, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    with (stdout or Path(os.devnull)).open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            cwd=folder,
            env={**environment, "TERM": "xterm-256color"},
            stdin=its_own,
            stdout=its_own if stdout is None else file,
            stderr=its_own,
            start_new_session=True,
        )
    os.close(its_own)
    watchdog = threading.Timer(200, process.kill)
    watchdog.start()
    written = b""
    while chunk := _read(terminal):
        written += chunk
        if interrupt_at is not None and interrupt_at.encode() in written:
            interrupt_at = None
            # The terminal shows the key; the signal it sends to the programs of its own session only.
            os.write(terminal, b"\x03")
            process.send_signal(signal.SIGINT)
    exit_code = process.wait()
    watchdog.cancel()
    os.close(terminal)
    screen = Screen(width)
    screen.write(written.decode())
    return Ended(exit_code, written.decode(), screen.shown())


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        # How Linux tells that the other end was closed.
        return b""
