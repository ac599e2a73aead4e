"""Faults of files: images that change, checkpoints that break, runs that an older version began."""

import errno
import json
import random
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import hba
from fault.commands import run
from fault.disturbances import DAMAGES, AtFileOperation, DamagedImage, damage_image
from fault.subjects import refused, search_of, undisturbed
from fault.trial import Bed, Fault, Trial
from hba.errors import HbaError


def damaged_image(bed: Bed) -> Iterator[Trial]:
    """After the folder was listed, before the image is read: in memory, and streamed, which reads in each epoch."""
    chance = random.Random(bed.seed)
    for number in range(2 * len(DAMAGES) * (1 if bed.amount == 1 else 2)):
        folder, damage, streamed = bed.new(), DAMAGES[number % len(DAMAGES)], number % 4 == 1
        images = shutil.copytree(bed.images, folder / "images")
        search = search_of(images, 2, *(("--stream", "--workers", "0") if streamed else ()))
        subject = bed.evaluation_on(images) if number % 4 == 3 else search
        expected = bed.expected[subject.name]
        path = chance.choice(sorted(images.rglob("*.png")))
        content = path.read_bytes()
        ended = run(subject.begun(folder / "run"), DamagedImage(path, damage, streamed))
        # An evaluation reads all but its test images first; the search may not have drawn it.
        wrong = ended.wrong or (None if ended.code == 0 else refused(ended, "cannot read the image", "change while"))
        message = ended.message.strip().replace(str(folder), "DIR")
        damage_image(path, "removed")
        path.write_bytes(content)
        lost = wrong or (None if ended.code == 0 else subject.lost(folder / "run", expected))
        shutil.rmtree(folder, ignore_errors=True)
        yield Trial(lost, message)


def changed_image(bed: Bed) -> Iterator[Trial]:
    """Between a run that stopped and its resumption: refused, until the image is what it was."""
    for number in range(bed.amount):
        folder = bed.new()
        images = shutil.copytree(bed.images, folder / "images")
        subject = search_of(images)
        expected = bed.expected["search"]
        stopped = AtFileOperation(folder / "run", 50 + number, errno.ENOSPC, folder / "fired")
        run(subject.begun(folder / "run"), stopped)
        path = sorted(images.rglob("*.png"))[number]
        content = path.read_bytes()
        damage_image(path, "other")
        ended = run(subject.begun(folder / "run"))
        wrong = refused(ended, "changed since")
        path.write_bytes(content)
        lost = wrong or subject.lost(folder / "run", expected)
        shutil.rmtree(folder, ignore_errors=True)
        yield Trial(lost, ended.message.strip().replace(str(folder), "DIR"))


def cut_checkpoint(bed: Bed) -> Iterator[Trial]:
    """Cut at the boundaries of its parts and anywhere between: the run goes on from the one before, and says so."""
    yield from _broken(bed, lambda content, place: content[:place], always_seen=True)


def wrong_byte(bed: Bed) -> Iterator[Trial]:
    """Not every byte means something."""
    yield from _broken(
        bed, lambda content, place: content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]
    )


def _broken(bed: Bed, damaged: Callable[[bytes, int], bytes], always_seen: bool = False) -> Iterator[Trial]:
    subject, stopped = search_of(bed.images, 4), _stopped(bed)
    expected = undisturbed(subject, bed.new() / "run")
    content = (stopped / "run" / "checkpoint.pt").read_bytes()
    for place in _places(stopped / "run" / "checkpoint.pt", bed):
        folder = bed.new()
        shutil.copytree(stopped / "run", folder / "run")
        (folder / "run" / "checkpoint.pt").write_bytes(damaged(content, place))
        ended = run(subject.begun(folder / "run"))
        says = [line for line in ended.printed.splitlines() if "cannot be read" in line]
        wrong = ended.wrong or ("it says nothing" if always_seen and not says else None)
        lost = wrong or subject.lost(folder / "run", expected)
        shutil.rmtree(folder, ignore_errors=True)
        yield Trial(lost, says[0].replace(str(folder), "DIR") if says else "")


def _stopped(bed: Bed) -> Path:
    """The folder of a search of four epochs that was stopped when it had two checkpoints."""
    for number in range(50, 100):
        folder = bed.new()
        fault = AtFileOperation(folder / "run", number, errno.ENOSPC, folder / "fired")
        run(search_of(bed.images, 4).begun(folder / "run"), fault)
        if {"checkpoint.pt", "checkpoint_before.pt"} <= {path.name for path in (folder / "run").iterdir()}:
            return folder
    raise HbaError("no search stops with two checkpoints")


def _places(checkpoint: Path, bed: Bed) -> list[int]:
    size, chance = checkpoint.stat().st_size, random.Random(bed.seed)
    with zipfile.ZipFile(checkpoint) as parts:
        starts = [part.header_offset for part in parts.infolist()]
    near = sorted({place for start in (*starts, size - 22, size) for place in (start, start + 1)} & set(range(size)))
    some = chance.sample(near, min(len(near), 3 * bed.amount))
    return sorted({0, size - 1, *some, *(chance.randrange(size) for _ in range(3 * bed.amount))})


def older_run(bed: Bed) -> Iterator[Trial]:
    """Of version 0.1.0, by each algorithm; and a checkpoint of a version that is not known."""
    import old_runs
    from search_problems import small_data

    whole = json.loads((old_runs.STOPPED / "whole.json").read_text(encoding="utf-8"))
    for name, last in whole.items():
        folder = bed.new()
        shutil.copytree(old_runs.STOPPED / name, folder / "run")
        try:
            found = hba.search(small_data(), network=old_runs.Small(), out=folder / "run", resume=True)
            far = float(np.abs(np.array(old_runs.values_of(found)[-1]) - last).max())
            # Other processors round otherwise.
            yield Trial(None if far < 1e-2 else f"{name} differs by {far:g}")
        except HbaError as error:
            yield Trial(f"{name}: {error}")
        shutil.rmtree(folder)


FAULTS: dict[str, Fault] = {
    "an image damaged after it was listed": damaged_image,
    "an image changed before a resumption": changed_image,
    "checkpoint cut at any byte": cut_checkpoint,
    "a wrong byte in the checkpoint": wrong_byte,
    "a run of version 0.1.0 resumed": older_run,
}
