"""Options that the commands of this suite share, and what they choose."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import click
from common.records import RESULTS, Record, store_of
from common.running import Task, carry_out
from common.tasks import SearchTask

from quality.beds import DIGITS, Bed, find_bed
from quality.candidates import CANDIDATES, DEFAULT
from quality.tasks import RIVAL_ROWS

Command = TypeVar("Command", bound=Callable[..., None])

DATA = click.option("--data", default=DIGITS, show_default=True, help="digits, or a folder of images like CIFAR-10.")
LABEL = click.option("--label", help="What records call the folder. [default: its name]")
DEVICE = click.option("--device", default="cpu", show_default=True)
CHOSEN = click.option("--candidates", "names", default=",".join(CANDIDATES), help="Names, by commas. [default: all]")
KEPT_IN = click.option(
    "--results", type=click.Path(path_type=Path), default=RESULTS, help="[default: benchmarks/results]"
)
OF_SUITE = (
    DATA,
    LABEL,
    click.option("--seeds", type=click.IntRange(1), default=5, show_default=True, help="Runs of each, seeds from 0."),
    click.option("--epochs", type=click.IntRange(1), help="Of a search. [default: by data]"),
    click.option("--jobs", type=click.IntRange(1), default=2, show_default=True, help="At a time, a thread each."),
    DEVICE,
    click.option("--work", type=click.Path(path_type=Path), default=Path("runs/quality"), show_default=True),
    KEPT_IN,
    click.option("--estimate", is_flag=True, help="Only say what would run, and how long it takes."),
)


def with_options(command: Command) -> Command:
    """A command that gets those of a suite; Chosen takes them."""
    return reduce(lambda wrapped, option: option(wrapped), reversed(OF_SUITE), command)


@dataclass(frozen=True)
class Chosen:
    """What the options of a suite say."""

    data: str
    label: str | None
    seeds: int
    epochs: int | None
    jobs: int
    device: str
    work: Path
    results: Path
    estimate: bool

    @property
    def bed(self) -> Bed:
        return find_bed(self.data, self.label)

    def searches(self, rows: Sequence[str], **further: Any) -> Iterator[tuple[str, SearchTask]]:
        """Rows and their searches, a rival's being the default's; further: settings.

        Seed by seed, so that an interrupted suite has all rows on the same ones.
        """
        bed = self.bed
        length = {} if self.epochs is None else {"epochs": self.epochs}
        for seed in range(self.seeds):
            for row in rows:
                candidate = DEFAULT if row in RIVAL_ROWS else row
                config = bed.config(candidate, seed, **further, **length, device=self.device)
                yield row, SearchTask(candidate, bed.place.label, config, self.work)

    def carry_out(self, tasks: Sequence[Task], question: str) -> list[Record]:
        """Those of all tasks that are kept now; none for an estimate."""
        return carry_out(tasks, store_of(self.results, question), self.device, self.jobs, self.estimate)
