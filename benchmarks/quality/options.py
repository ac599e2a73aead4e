"""Options that the commands of this suite share, and what they choose."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import click
from common.records import RESULTS, Record, store_of
from common.running import NOTHING_ELSE, Task, carry_out
from common.tasks import SearchTask

from quality.beds import BEDS, CIFAR_FOLDER, DATA_FOLDER, DIGITS, Bed, find_bed
from quality.candidates import CANDIDATES, DEFAULT
from quality.plan import BLOCK
from quality.tasks import RIVAL_ROWS

Command = TypeVar("Command", bound=Callable[..., None])

BED = click.option("--bed", "bed_name", default=DIGITS, show_default=True, help=f"{', '.join(BEDS)}.")
DATA = click.option(
    "--data", help=f"Folder of the CIFAR-10 copy, for beds of it. [default: {CIFAR_FOLDER} in the folder {DATA_FOLDER}]"
)
DEVICE = click.option("--device", default="cpu", show_default=True)
CHOSEN = click.option("--candidates", "names", default=",".join(CANDIDATES), help="Names, by commas. [default: all]")
KEPT_IN = click.option(
    "--results", type=click.Path(path_type=Path), default=RESULTS, help="[default: benchmarks/results]"
)
SEEDS = click.option(
    "--seeds", type=click.IntRange(1, BLOCK), default=5, show_default=True, help="Runs of each, seeds from 0."
)
OF_RUNS = (
    DATA,
    click.option("--jobs", type=click.IntRange(1), default=2, show_default=True, help="At a time, a thread each."),
    DEVICE,
    click.option("--work", type=click.Path(path_type=Path), default=Path("runs/quality"), show_default=True),
    KEPT_IN,
    click.option("--estimate", is_flag=True, help="Only say what would run, and how long it takes."),
)


def with_options_of_runs(command: Command) -> Command:
    """A command that gets what does not say what is run, but where and how."""
    return reduce(lambda wrapped, option: option(wrapped), reversed(OF_RUNS), command)


def with_options(command: Command) -> Command:
    """A command that gets those of a suite; Chosen takes them."""
    epochs = click.option("--epochs", type=click.IntRange(1), help="Of a search. [default: by bed]")
    return BED(SEEDS(epochs(with_options_of_runs(command))))


@dataclass(frozen=True)
class Chosen:
    """What the options of a suite say."""

    bed_name: str
    data: str | None
    seeds: int
    epochs: int | None
    jobs: int
    device: str
    work: Path
    results: Path
    estimate: bool
    first_seed: int = 0

    @property
    def bed(self) -> Bed:
        return find_bed(self.bed_name, self.data)

    def searches(
        self, rows: Sequence[str], rivals_of: str = DEFAULT, **further: Any
    ) -> Iterator[tuple[str, SearchTask]]:
        """Rows and their searches, a rival's being that candidate's; further: settings.

        Seed by seed, so that an interrupted suite has all rows on the same ones.
        """
        bed = self.bed
        length = {} if self.epochs is None else {"epochs": self.epochs}
        for seed in range(self.first_seed, self.first_seed + self.seeds):
            for row in rows:
                candidate = rivals_of if row in RIVAL_ROWS else row
                yield row, bed.search(candidate, seed, self.work, **further, **length, device=self.device)

    def carry_out(self, tasks: Sequence[Task], question: str, noted: Mapping[str, Any] = NOTHING_ELSE) -> list[Record]:
        """Those of all tasks that are kept now; none for an estimate. noted: for new records, beside the machine."""
        return carry_out(tasks, store_of(self.results, question), self.device, self.jobs, self.estimate, noted)
