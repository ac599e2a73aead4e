"""Faults that are made inside the process of a command: its file operations fail or kill it, its clock jumps, images
change under it.
"""

import io
import itertools
import os
import random
import resource
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

KILL = 0
"""In the place of an error number."""

DAMAGES = ("removed", "empty", "cut", "text", "folder", "pipe")
"""What becomes of an image."""


@dataclass(frozen=True)
class AtFileOperation:
    """At the n-th time, from 1, that something below `root` is opened to be written, written, made, renamed, removed or
    brought to the disk, that fails by an error number, after half of what was to be written, or the process is killed.

    fired: a file that then is there.
    """

    root: Path
    number: int
    error: int
    fired: Path

    def begin(self) -> None:
        count = itertools.count(1)
        touch = os.open(self.fired.parent, os.O_RDONLY)

        def happens(half: Callable[[], Any] = lambda: None) -> None:
            if next(count) != self.number:
                return
            half()
            os.close(real_open(self.fired.name, os.O_CREAT | os.O_WRONLY, dir_fd=touch))
            if self.error == KILL:
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError(self.error, os.strerror(self.error))

        real_io_open, real_open = io.open, os.open

        def is_ours(path: Any) -> bool:
            return isinstance(path, str | os.PathLike) and str(self.root) in str(path)

        def io_open(file: Any, mode: str = "r", *others: Any, **more: Any) -> Any:
            if not is_ours(file) or not set(mode) & set("wax+"):
                return real_io_open(file, mode, *others, **more)
            happens()
            return _Written(real_io_open(file, mode, *others, **more), happens)

        def os_open(path: Any, flags: int, *others: Any, **more: Any) -> int:
            if is_ours(path) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                happens()
            return real_open(path, flags, *others, **more)

        io.open, os.open = io_open, os_open
        for name in ("fsync", "replace", "rename", "mkdir", "unlink", "rmdir"):
            setattr(os, name, self._counted(getattr(os, name), happens, is_ours, always=name == "fsync"))

    @staticmethod
    def _counted(
        real: Callable[..., Any], happens: Callable[[], None], is_ours: Callable[[Any], bool], *, always: bool
    ) -> Callable[..., Any]:
        def call(first: Any, *others: Any, **more: Any) -> Any:
            if always or is_ours(first):
                happens()
            return real(first, *others, **more)

        return call


class _Written:
    """A file that is open, of which every write is counted."""

    def __init__(self, file: Any, happens: Callable[[Callable[[], Any]], None]) -> None:
        self._file, self._happens = file, happens

    def write(self, content: Any) -> Any:
        def half() -> None:
            self._file.write(content[: len(content) // 2])
            self._file.flush()

        self._happens(half)
        return self._file.write(content)

    def __enter__(self) -> "_Written":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@dataclass(frozen=True)
class SmallFiles:
    """No file can get larger than so many bytes, by the system's own limit; what is printed goes into files too."""

    n_bytes: int

    def begin(self) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.n_bytes, self.n_bytes))


@dataclass(frozen=True)
class JumpingClock:
    """The time of day jumps by years, back and forth, whenever it is asked for."""

    seed: int

    def begin(self) -> None:
        jumps, now = random.Random(self.seed), time.time
        time.time = lambda: now() + jumps.uniform(-1e9, 1e9)
        time.time_ns = lambda: int(time.time() * 1e9)


@dataclass(frozen=True)
class DamagedImage:
    """An image is damaged after the folder was listed, before the image is read. streamed: after the run has begun."""

    path: Path
    damage: str
    streamed: bool

    def begin(self) -> None:
        from hba.data.folder import FilePool
        from hba.data.streaming import StreamedImages

        place, name = (StreamedImages, "batches") if self.streamed else (FilePool, "read")
        real = getattr(place, name)

        def damaged(*arguments: Any, **more: Any) -> Any:
            damage_image(self.path, self.damage)
            return real(*arguments, **more)

        setattr(place, name, damaged)


def damage_image(path: Path, damage: str) -> None:
    content = path.read_bytes() if path.is_file() else b""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    if damage == "folder":
        path.mkdir()
    elif damage == "pipe":
        os.mkfifo(path)
    elif damage == "other":
        Image.new("RGB", (12, 10), "red").save(path)
    elif damage != "removed":
        path.write_bytes({"empty": b"", "text": b"no image", "cut": content[: len(content) // 2]}[damage])
