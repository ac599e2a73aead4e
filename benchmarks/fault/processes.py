"""Faults of processes: killed at any moment or file operation; a worker killed; a clock that jumps; two at once."""

import contextlib
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from fault.commands import Command, run, wait_until
from fault.disturbances import KILL, AtFileOperation, JumpingClock
from fault.subjects import Subject, evaluation_of, refused, search_of, undisturbed
from fault.trial import Bed, Fault, Trial

KILLS_OF_ONE_RUN = 4
LONGER_EPOCHS = 40


def killed_search(bed: Bed) -> Iterator[Trial]:
    subject = search_of(bed.images, LONGER_EPOCHS)
    yield from _killed(bed, subject, undisturbed(subject, bed.new() / "run"), 8 * bed.amount)


def killed_evaluation(bed: Bed) -> Iterator[Trial]:
    yield from _killed(bed, bed.evaluation, bed.expected["evaluation"], 4 * bed.amount)


def killed_evaluation_of_two_jobs(bed: Bed) -> Iterator[Trial]:
    """Its workers must end too."""
    subject = evaluation_of(bed.images, bed.place / "undisturbed search" / "policy.json", jobs=2)
    expected = undisturbed(replace(subject, words=(*subject.words[:-1], "1")), bed.new() / "run")
    moments = random.Random(bed.seed)
    for _ in range(bed.amount):
        folder = bed.new()
        command = Command(subject.begun(folder / "run"))
        workers = _workers(command)
        time.sleep(moments.uniform(0, 8))
        command.kill()
        lost = "its workers live on" if _live_on(workers) else subject.lost(folder / "run", expected)
        shutil.rmtree(folder, ignore_errors=True)
        yield Trial(lost)


def _killed(bed: Bed, subject: Subject, expected: bytes, n_kills: int) -> Iterator[Trial]:
    """Some kills at random moments of one run, after the last of which it is to go on to its end."""
    moments = random.Random(bed.seed)
    while n_kills > 0:
        folder, n_of_run = bed.new(), 0
        command = Command(subject.begun(folder / "run"))
        while n_of_run < min(n_kills, KILLS_OF_ONE_RUN):
            time.sleep(moments.uniform(0.1, 1.6))
            if command.process.exitcode is not None:
                break
            command.kill()
            n_of_run += 1
            command = Command(subject.begun(folder / "run"))
        command.kill()
        n_of_run += 1
        lost = subject.lost(folder / "run", expected)
        shutil.rmtree(folder, ignore_errors=True)
        yield from [Trial(lost), *[Trial(None)] * (n_of_run - 1)]
        n_kills -= n_of_run


def killed_at_file_operations(bed: Bed) -> Iterator[Trial]:
    for subject in (bed.search, bed.evaluation):
        for folder in _each_operation(bed, subject, KILL):
            yield bed.after(subject, folder, "")


def _each_operation(bed: Bed, subject: Subject, error: int) -> Iterator[Path]:
    """A folder with the run, which ended at the first, second, ... file operation."""
    number = 1
    while True:
        folder = bed.new()
        fired = folder / "fired"
        run(subject.begun(folder / "run"), AtFileOperation(folder / "run", number, error, fired))
        if not fired.exists():
            return
        yield folder
        number += 1 if bed.amount > 1 else 6


def killed_worker(bed: Bed) -> Iterator[Trial]:
    """One that trains, of an evaluation of two jobs, and one that reads, of a streamed search."""
    evaluation = evaluation_of(bed.images, bed.place / "undisturbed search" / "policy.json", jobs=2, epochs=8)
    expected = undisturbed(replace(evaluation, words=(*evaluation.words[:-1], "1")), bed.new() / "run")
    search = search_of(bed.images, LONGER_EPOCHS, "--stream", "--workers", "1")
    found = undisturbed(search, bed.new() / "run")
    moments = random.Random(bed.seed)
    for number in range(2 * bed.amount):
        subject, result = ((search, found), (evaluation, expected))[number % 2]
        folder = bed.new()
        command = Command(subject.begun(folder / "run"))
        workers = _workers(command)
        time.sleep(moments.uniform(0, 1.0))
        for worker in moments.sample(workers, len(workers))[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        ended = command.ended()
        lost = ended.wrong or subject.lost(folder / "run", result)
        shutil.rmtree(folder, ignore_errors=True)
        yield Trial(lost, ended.message.strip().replace(str(folder), "DIR"))


def _workers(command: Command) -> list[int]:
    """As soon as there are some."""
    end = time.monotonic() + 60
    while command.process.exitcode is None and time.monotonic() < end:
        if workers := command.workers():
            return workers
        time.sleep(0.02)
    return []


def _live_on(workers: list[int]) -> bool:
    """Whether one of them is there a minute after its parent; it may have to import PyTorch first."""
    for _ in range(600):
        if not any(_is_running(worker) for worker in workers):
            return False
        time.sleep(0.1)
    return True


def _is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:  # noqa: PTH123 no file of a disk
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def jumping_clock(bed: Bed) -> Iterator[Trial]:
    for number in range(2 * bed.amount):
        subject, folder = (bed.search, bed.evaluation)[number % 2], bed.new()
        ended = run(subject.begun(folder / "run"), JumpingClock(bed.seed + number))
        wrong = ended.wrong or (f"it ends with code {ended.code}" if ended.code else None)
        yield bed.after(subject, folder, ended.message, wrong)


def second_run(bed: Bed) -> Iterator[Trial]:
    """In the folder of a first one, which must not notice."""
    first = search_of(bed.images, LONGER_EPOCHS)
    expected = undisturbed(first, bed.new() / "run")
    for number in range(2 * bed.amount):
        folder = bed.new()
        command = Command(first.begun(folder / "run"))
        wait_until(folder / "run" / "config.json", command)
        second = (first, bed.evaluation, bed.search)[number % 3]
        ended = run((*second.words, "--out", str(folder / "run"), *(["--resume"] if number % 2 else [])))
        wrong = refused(ended, "at work", "already holds", "keeps its settings", "holds no evaluation")
        of_first = command.ended()
        wrong = wrong or of_first.wrong or (None if first.found(folder / "run") == expected else "the first is another")
        shutil.rmtree(folder, ignore_errors=True)
        yield Trial(wrong, ended.message.strip().replace(str(folder), "DIR"))


FAULTS: dict[str, Fault] = {
    "search killed at a random moment": killed_search,
    "evaluation killed at a random moment": killed_evaluation,
    "evaluation of two jobs killed": killed_evaluation_of_two_jobs,
    "killed at each file operation": killed_at_file_operations,
    "a worker killed": killed_worker,
    "the clock jumps": jumping_clock,
    "a second run in the folder": second_run,
}
