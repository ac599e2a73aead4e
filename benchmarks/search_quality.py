"""Candidates for the settings of a search, compared on validation images, and the verdict on the default one.

    python benchmarks/search_quality.py choose-beds [--beds digits,cifar] [--data DIR] [--seeds 5] [--jobs 2]
    python benchmarks/search_quality.py candidates [--bed cifar --data DIR] [--candidates paper,calibrate] ...
    python benchmarks/search_quality.py retrain [--bed cifar --data DIR] ...
    python benchmarks/search_quality.py verdict [--bed cifar --data DIR] [--jobs 2] [--estimate]
    python benchmarks/search_quality.py credit [--bed cifar-grey --data DIR] [--seeds 5] [--epochs N] [--jobs 2]
    python benchmarks/search_quality.py cost [--bed cifar --data DIR] [--candidates lookahead-draws] [--rounds 5]
    python benchmarks/search_quality.py page
    python benchmarks/search_quality.py readme

A bed is images with the settings that all share; DIR is the CIFAR-10 copy, with folders train and test of a folder for
each class. `choose-beds` trains with none and RandAugment only: how far apart they are says whether anything can be
told on a bed, before a search is looked at. `candidates` searches with each and keeps the search network's final
validation error. `retrain` trains a fresh network on the search's training images with each schedule that was found
(searching it first where that is missing), with none, and with a policy in the middle of all ranges, whole and without
some operations, and keeps its error on the validation images. Only `verdict` opens the test split: it runs what
benchmarks/quality/verdict.toml says, rows, seeds and epochs, which has to be committed before; no option changes that.
`credit` trains with policies that no search moves, and holds what look-ahead's rewards say of them against their
validation errors. `cost` times steps. Runs of the same seed have the same weights and batches. Each run's results are
kept as soon as it ended, in benchmarks/results, and what is kept is not run again. `page` writes docs/search-quality.md
from all that is kept, planted problems (benchmarks/planted.py) and closed forms (benchmarks/closed_forms.py) too;
`readme` prints the table of README.md.
"""

from pathlib import Path
from typing import Any

import click
import torch
from common.records import DOCS, store_of
from common.tables import markdown
from quality.bed_table import bed_table, of_range
from quality.beds import BEDS, find_bed, needs_folder
from quality.candidates import CANDIDATES, DRAWS, FORMER, PAPER
from quality.cost import cost_table, measured_cost
from quality.credit import credit_tasks
from quality.credit_table import of_credit, policy_table, variant_table
from quality.error_tables import error_table, verdict_sentence, verdict_table
from quality.options import BED, CHOSEN, DATA, DEVICE, KEPT_IN, SEEDS, Chosen, with_options, with_options_of_runs
from quality.page import readme_results, write_page
from quality.plan import PLAN, planned_for
from quality.tasks import RANGE, WITHOUT_SEARCH, row_task, rows_of

from hba.errors import HbaError, SettingsError
from hba.utils.settings import words


class OneLine(click.Group):
    """A command's mistakes of its user in one line."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except HbaError as error:
            raise click.ClickException(str(error)) from None


@click.group(help=__doc__, cls=OneLine)
def main() -> None:
    pass


@main.command("choose-beds")
@click.option("--beds", default=",".join(BEDS), show_default=True, help="Names, by commas.")
@SEEDS
@click.option("--epochs", type=click.IntRange(1), help="Of a training. [default: by bed]")
@with_options_of_runs
def choose_beds(beds: str, data: str | None, **options: Any) -> None:
    """Train with none and with RandAugment, and measure validation images."""
    suites = [Chosen(bed_name=bed, data=data if needs_folder(bed) else None, **options) for bed in words(beds)]
    tasks = [row_task(row, search, tested=False) for suite in suites for row, search in suite.searches(RANGE)]
    found = of_range(suites[0].carry_out(tasks, "trainings"))
    if found:
        click.echo(markdown(bed_table(found)))


@main.command()
@with_options
@CHOSEN
def candidates(names: str, **options: Any) -> None:
    """Search with each candidate."""
    chosen = Chosen(**options)
    kept = chosen.carry_out([search for _, search in chosen.searches(words(names))], "searches")
    if kept:
        click.echo(markdown(error_table(kept)))


@main.command()
@with_options
@CHOSEN
@click.option("--training-epochs", type=click.IntRange(1), help="Of a training. [default: as the search]")
@click.option("--alone", is_flag=True, help="Train with what the candidates found, and with nothing else.")
def retrain(names: str, training_epochs: int | None, alone: bool, **options: Any) -> None:
    """Train with what each candidate found, with none, and with a random policy, whole and without some operations."""
    chosen = Chosen(**options)
    others = () if alone else WITHOUT_SEARCH
    tasks = [
        row_task(row, search, tested=False, epochs=training_epochs)
        for row, search in chosen.searches([*words(names), *others], rivals_of=DRAWS)
    ]
    kept = chosen.carry_out(tasks, "trainings")
    if kept:
        click.echo(markdown(error_table(kept)))


@main.command()
@BED
@click.option("--seeds", type=click.IntRange(1), help="Only the first ones of the plan. [default: all]")
@with_options_of_runs
@click.option(
    "--plan", type=click.Path(path_type=Path), default=PLAN, help=f"[default: benchmarks/quality/{PLAN.name}]"
)
def verdict(seeds: int | None, plan: Path, bed_name: str, **options: Any) -> None:
    """Train with what the default search found and with all it must beat, as planned, and measure the test split."""
    planned = planned_for(bed_name, plan)
    if seeds is not None and seeds > planned.seeds:
        raise SettingsError(f"--seeds must be at most the {planned.seeds} that are planned, got {seeds}")
    n_seeds = seeds or planned.seeds
    chosen = Chosen(
        bed_name=bed_name, seeds=n_seeds, first_seed=planned.first_seed, epochs=planned.epochs, **options
    )  # fmt: skip
    of = planned.of
    _, search = next(chosen.searches([of]))
    names = rows_of(planned.rows, row_task(of, search, tested=True).config)
    found = list(chosen.searches(names, rivals_of=of))
    noted = {} if chosen.estimate else planned.noted(plan)
    chosen.carry_out([search for row, search in found if row in CANDIDATES], "searches", noted)
    tasks = [row_task(row, search, tested=True) for row, search in found]
    kept = chosen.carry_out(tasks, "verdict", noted)
    if kept:
        click.echo(markdown(verdict_table(kept, of)))
        click.echo(verdict_sentence(kept, of))


@main.command()
@with_options
def credit(**options: Any) -> None:
    """Train with fixed policies, and hold what rewards say of them against their validation errors."""
    chosen = Chosen(**options)
    tasks = [task for _, search in chosen.searches([FORMER]) for task in credit_tasks(search)]
    for group in of_credit(chosen.carry_out(tasks, "credit")):
        click.echo(markdown(policy_table(group)))
        click.echo(markdown(variant_table(group)))


@main.command()
@BED
@DATA
@CHOSEN
@KEPT_IN
@DEVICE
@click.option("--rounds", type=click.IntRange(2), default=5, show_default=True)
def cost(bed_name: str, data: str | None, names: str, results: Path, rounds: int, device: str) -> None:
    """Time a step of each candidate, in turns, on an otherwise idle machine."""
    others = [name for name in words(names) if name != PAPER]
    torch.set_num_threads(1)
    record = measured_cost(find_bed(bed_name, data), others, rounds, device, click.echo)
    store_of(results, "cost").add(record)
    click.echo(markdown(cost_table(record)))


@main.command()
@KEPT_IN
def page(results: Path) -> None:
    """Write docs/search-quality.md."""
    click.echo(f"Page: {write_page(results, DOCS)}")


@main.command()
@KEPT_IN
def readme(results: Path) -> None:
    """Print the table of results in README.md."""
    click.echo(readme_results(results))


if __name__ == "__main__":
    main()
