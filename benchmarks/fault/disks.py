"""Faults of disks: full or failing at each file operation, full by the system's own limits, read-only."""

import ctypes
import errno
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from fault.commands import CONTEXT, Ended, run
from fault.disturbances import AtFileOperation, SmallFiles
from fault.subjects import Subject, refused
from fault.trial import Bed, Fault, Trial

NEW_MOUNTS, REMOUNTED, READ_ONLY, PRIVATE = 0x20000, 32, 1, 1 << 18 | 1 << 14
"""Of unshare(2) and mount(2)."""


def full_at_file_operations(bed: Bed) -> Iterator[Trial]:
    for subject in (bed.search, bed.evaluation):
        yield from _failing(bed, subject, errno.ENOSPC)


def failing_at_file_operations(bed: Bed) -> Iterator[Trial]:
    """By other errors: of the medium, of a quota, of a disk that becomes read-only. A sample of the operations."""
    chance = random.Random(bed.seed)
    for _ in range(3 * bed.amount):
        subject = chance.choice((bed.search, bed.evaluation))
        number, error = chance.randrange(1, 60), chance.choice((errno.EIO, errno.EDQUOT, errno.EROFS))
        folder = bed.new()
        ended = run(subject.begun(folder / "run"), AtFileOperation(folder / "run", number, error, folder / "fired"))
        yield bed.after(subject, folder, ended.message, ended.wrong)


def _failing(bed: Bed, subject: Subject, error: int) -> Iterator[Trial]:
    number, step = 1, 1 if bed.amount > 1 else 6
    while True:
        folder = bed.new()
        fired = folder / "fired"
        ended = run(subject.begun(folder / "run"), AtFileOperation(folder / "run", number, error, fired))
        if not fired.exists():
            shutil.rmtree(folder)
            return
        yield bed.after(subject, folder, ended.message, ended.wrong)
        number += step


def full_in_other_commands(bed: Bed) -> Iterator[Trial]:
    """Of commands that write one file: it is whole or not there, and the one before is kept."""
    policy = bed.place / "undisturbed search" / "policy.json"
    image = next(bed.images.rglob("*.png"))
    commands = {
        "show": ("show", str(policy)),
        "apply": ("apply", str(policy), str(image)),
        "export": ("export", str(policy), "--to", "json"),
    }
    for words in commands.values():
        for number in range(1, 5):
            folder = bed.new()
            out = folder / "run" / "out.file"
            out.parent.mkdir()
            out.write_bytes(b"before")
            fault = AtFileOperation(folder / "run", number, errno.ENOSPC, folder / "fired")
            ended = run((*words, "--out", str(out)), fault)
            was_kept = ended.code == 0 or out.read_bytes() == b"before"
            others = [path.name for path in out.parent.iterdir() if path != out]
            wrong = ended.wrong or (None if was_kept else "the file before is gone")
            yield Trial(wrong or (f"it leaves {others[0]}" if others else None), _cut(ended, folder))
            shutil.rmtree(folder)


def small_files(bed: Bed) -> Iterator[Trial]:
    largest = max(path.stat().st_size for path in (bed.place / "undisturbed search").iterdir())
    for number in range(2 * bed.amount):
        subject, folder = bed.search, bed.new()
        n_bytes = 3000 + (largest - 3000) * number // (2 * bed.amount)
        ended = run(subject.begun(folder / "run"), SmallFiles(n_bytes))
        yield bed.after(subject, folder, ended.message, ended.wrong)


def small_disk(bed: Bed) -> Iterator[Trial]:
    """A disk of few pages, which is full at some write; enlarged, the run goes on."""
    whole = sum(path.stat().st_size for path in (bed.place / "undisturbed search").iterdir())
    for number in range(bed.amount):
        n_bytes = 4096 * max(1, (2 * whole // 4096) * number // bed.amount)
        yield from _on_a_disk(bed, partial(_filled, n_bytes=n_bytes))


def read_only_disk(bed: Bed) -> Iterator[Trial]:
    for _ in range(max(1, bed.amount // 4)):
        yield from _on_a_disk(bed, _only_read)
    for words in (bed.search.words, bed.evaluation.words):
        ended = run((*words, "--out", "/proc/hba"))
        yield Trial(refused(ended, "cannot write into"), ended.message.strip())


def _on_a_disk(bed: Bed, done: Callable[[Subject, Path], Ended]) -> Iterator[Trial]:
    """A trial on a disk of its own; none where this system makes no such disk."""
    folder = bed.new()
    message = folder / "message"
    process = CONTEXT.Process(target=_with_disk, args=(done, bed.search, folder, message))
    process.start()
    process.join()
    if process.exitcode == errno.EPERM:
        shutil.rmtree(folder)
        return
    wrong = None if process.exitcode == 0 else message.read_text(encoding="utf-8")
    yield bed.after(bed.search, folder, message.read_text(encoding="utf-8") if wrong is None else "", wrong)


def _with_disk(done: Callable[[Subject, Path], Ended], subject: Subject, folder: Path, message: Path) -> None:
    system = ctypes.CDLL(None, use_errno=True)
    if system.unshare(NEW_MOUNTS) or system.mount(b"none", b"/", None, PRIVATE, None):
        os._exit(errno.EPERM)
    disk = folder / "disk"
    disk.mkdir()
    if system.mount(b"tmpfs", os.fsencode(disk), b"tmpfs", 0, b"size=16m"):
        os._exit(errno.EPERM)
    ended = done(subject, disk)
    message.write_text(ended.wrong or ended.message, encoding="utf-8")
    if (disk / "run").exists():
        shutil.copytree(disk / "run", folder / "run")
    os._exit(1 if ended.wrong else 0)


def _filled(subject: Subject, disk: Path, n_bytes: int) -> Ended:
    _remount(disk, 0, f"size={n_bytes}")
    return _forked(subject, disk / "run")


def _only_read(subject: Subject, disk: Path) -> Ended:
    _remount(disk, READ_ONLY, "")
    return _forked(subject, disk / "run")


def _remount(disk: Path, flags: int, options: str) -> None:
    system = ctypes.CDLL(None, use_errno=True)
    system.mount(b"tmpfs", os.fsencode(disk), b"tmpfs", REMOUNTED | flags, options.encode())


def _forked(subject: Subject, run_folder: Path) -> Ended:
    """A command in this process's view of the disks; those of the fork server have the system's."""
    from fault.commands import run_forked

    return run_forked(subject.begun(run_folder))


def _cut(ended: Ended, folder: Path) -> str:
    return replace(ended, message=ended.message.strip().replace(str(folder), "DIR")).message


FAULTS: dict[str, Fault] = {
    "disk full at each file operation": full_at_file_operations,
    "disk fails at a file operation": failing_at_file_operations,
    "disk full in show, apply, export": full_in_other_commands,
    "files may not get large": small_files,
    "disk of few pages full": small_disk,
    "disk read-only": read_only_disk,
}
