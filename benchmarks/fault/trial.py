"""One fault tried once, and all trials of a kind of fault."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fault.subjects import Subject, evaluation_of, make_images, search_of, undisturbed
from hba.schedule.library import policy_names


@dataclass(frozen=True)
class Trial:
    """lost: what the fault has cost, or what the user should not have seen, None for nothing. message: what was."""

    lost: str | None
    message: str = ""


@dataclass(frozen=True)
class Bed:
    """Where faults are tried. amount: times as much as in a quick trial; seed: of random moments and places."""

    place: Path
    amount: int
    seed: int
    expected: dict[str, bytes] = field(default_factory=dict)

    @property
    def images(self) -> Path:
        return self.place / "images"

    @property
    def search(self) -> Subject:
        return search_of(self.images)

    @property
    def evaluation(self) -> Subject:
        return self.evaluation_on(self.images)

    @staticmethod
    def evaluation_on(images: Path) -> Subject:
        return evaluation_of(images, Path(policy_names()[0]))

    @staticmethod
    def made(place: Path, amount: int, seed: int) -> "Bed":
        """With what the subjects find where nothing happens."""
        bed = Bed(place, amount, seed)
        make_images(bed.images)
        for subject in (bed.search, bed.evaluation):
            bed.expected[subject.name] = undisturbed(subject, place / f"undisturbed {subject.name}")
        return bed

    def new(self) -> Path:
        """A folder for one trial; a run in it is to be called `run`."""
        return Path(tempfile.mkdtemp(dir=self.place))

    def after(self, subject: Subject, folder: Path, message: str, wrong: str | None = None) -> Trial:
        """What a fault has left of a run in folder/run. The folder is removed."""
        lost = wrong or subject.lost(folder / "run", self.expected[subject.name])
        shutil.rmtree(folder, ignore_errors=True)
        return Trial(lost, message.strip().replace(str(folder), "DIR").replace(str(self.place), "DIR"))


Fault = Callable[[Bed], Iterator[Trial]]
