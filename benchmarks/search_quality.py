"""Search for planted answers, and judge look-ahead on test images.

    python benchmarks/search_quality.py planted [--candidates paper,middle] [--problems
        rotated,inverted]
    python benchmarks/search_quality.py verdict [--bed cifar --data DIR] [--jobs 2]
        [--dry-run]
    python benchmarks/search_quality.py page

A bed is a set of images with the settings that all candidates share. DIR is the
CIFAR-10 copy, with folders train and test that hold one folder per class. `planted`
searches on problems with a known answer: an operation, or a pair, is applied to
validation images but not to training images, and the search should raise its
probability. `verdict` opens the test split: it runs the rows, seeds and epochs of
benchmarks/quality/verdict.toml, which has to be committed before. Runs of the same seed
have the same weights and batches. Each run is stored in benchmarks/results as soon as
it ends, and is not run again. `page` writes docs/search-quality.md.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from common.options import KEPT_IN, OneLineErrors, RunOptions, names_option
from common.records import DOCS
from common.running import carry_out
from common.tables import markdown
from common.tasks import SearchTask
from quality.beds import BEDS, DIGITS, find_bed, with_options_of_beds
from quality.candidates import CANDIDATES, DEFAULT
from quality.page import write_page
from quality.plan import BLOCK, PLAN, planned_for
from quality.problems import PROBLEMS
from quality.tables import rate_table, verdict_table
from quality.tasks import OTHERS, planted, row_task, rows_of

from hba.errors import SettingsError

PLANTED_EPOCHS = 120
BED = click.option(
    "--bed", default=DIGITS, show_default=True, type=click.Choice([*BEDS])
)
SEEDS = click.option(
    "--seeds",
    type=click.IntRange(1, BLOCK),
    default=5,
    show_default=True,
    help="Runs of each, seeds from 0.",
)
EPOCHS = click.option(
    "--epochs", type=click.IntRange(1), help="Of a search. [default: by bed]"
)


@click.group(help=__doc__, cls=OneLineErrors)
def main() -> None:
    pass


@dataclass(frozen=True)
class Where(RunOptions):
    """The options of runs."""

    bed: str
    data: str | None

    def searches(
        self,
        rows: Sequence[str],
        seeds: Sequence[int],
        epochs: int | None,
        baselines_of: str = DEFAULT,
        **settings: Any,
    ) -> Iterator[tuple[str, SearchTask]]:
        """Yield rows with their searches.

        The order is seed by seed, so that an interrupted suite has all rows for the
        same seeds.

        Args:
            rows: Names of the rows.
            seeds: The seeds of each row.
            epochs: Epochs of the searches; None for those of the bed.
            baselines_of: The candidate whose search a baseline has.
            **settings: Settings that override those of the bed.
        """
        bed = find_bed(self.bed, self.data)
        length = {} if epochs is None else {"epochs": epochs}
        for seed in seeds:
            for row in rows:
                candidate = baselines_of if row in OTHERS else row
                yield (
                    row,
                    bed.search(
                        candidate,
                        seed,
                        self.work,
                        **settings,
                        **length,
                        device=self.device,
                    ),
                )


@main.command(name="planted")
@BED
@SEEDS
@EPOCHS
@names_option("--candidates", CANDIDATES)
@names_option("--problems", PROBLEMS)
@with_options_of_beds
def find_planted(
    candidates: Sequence[str],
    problems: Sequence[str],
    seeds: int,
    epochs: int | None,
    **where: Any,
) -> None:
    """Search on problems with a known answer."""
    place = Where(**where)
    length = epochs or PLANTED_EPOCHS
    shared = {**find_bed(place.bed, place.data).planted, "validate_every": length}
    searches = place.searches(candidates, range(seeds), length, **shared)
    tasks = [planted(search, problem) for _, search in searches for problem in problems]
    kept = carry_out(tasks, "planted", place)
    if kept:
        click.echo(markdown(rate_table(kept)))


@main.command()
@BED
@click.option(
    "--seeds",
    type=click.IntRange(1),
    help="Only the first ones of the plan. [default: all]",
)
@with_options_of_beds
def verdict(seeds: int | None, **where: Any) -> None:
    """Train with the default search's schedule and with its baselines, as planned, and
    measure on the test split.
    """
    place = Where(**where)
    plan = planned_for(place.bed)
    if seeds is not None and seeds > plan.seeds:
        raise SettingsError(
            f"--seeds must be at most the {plan.seeds} that are planned, got {seeds}"
        )
    numbers = range(plan.first_seed, plan.first_seed + (seeds or plan.seeds))
    _, search = next(place.searches([plan.of], numbers, plan.epochs))
    rows = rows_of(plan.rows, row_task(plan.of, search, tested=True).config)
    searches = place.searches(rows, numbers, plan.epochs, baselines_of=plan.of)
    tasks = [row_task(row, search, tested=True) for row, search in searches]
    kept = carry_out(tasks, "verdict", place, plan, PLAN)
    if kept:
        click.echo(markdown(verdict_table(kept, plan.of)))


@main.command()
@KEPT_IN
def page(results: Path) -> None:
    """Write docs/search-quality.md."""
    click.echo(f"Page: {write_page(results, DOCS)}")


if __name__ == "__main__":
    main()
