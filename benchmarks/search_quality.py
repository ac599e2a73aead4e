"""Candidates for the settings of a search, compared on validation images, and the verdict on the default one.

    python benchmarks/search_quality.py candidates [--data DIR] [--candidates paper,calibrate] [--seeds 5] [--jobs 2]
    python benchmarks/search_quality.py retrain [--data DIR] ...
    python benchmarks/search_quality.py verdict [--data DIR] ...
    python benchmarks/search_quality.py cost [--data DIR] [--candidates lookahead-draws] [--rounds 5]
    python benchmarks/search_quality.py page
    python benchmarks/search_quality.py readme

`candidates` searches with each and keeps the search network's final validation error. `retrain` trains a fresh network
on the search's training images with each schedule that was found (searching it first where that is missing), with none
and with a random policy, whole and without some operations, and keeps its error on the validation images. Only
`verdict` opens the test split: it trains with what the default search found, with what the paper's found, and with all
that `hba evaluate --against` knows by name. `cost` times steps. Runs of the same seed have the same weights and
batches. Each run's results are kept as soon as it ended, in benchmarks/results, and what is kept is not run again.
`page` writes docs/search-quality.md from all that is kept, planted problems (benchmarks/planted.py) and closed forms
(benchmarks/closed_forms.py) too; `readme` prints the table of README.md.
"""

from pathlib import Path
from typing import Any

import click
import torch
from common.records import DOCS, store_of
from common.tables import markdown
from quality.beds import find_bed
from quality.candidates import CANDIDATES, DEFAULT, PAPER
from quality.cost import cost_table, measured_cost
from quality.error_tables import error_table, verdict_sentence, verdict_table
from quality.options import CHOSEN, DATA, DEVICE, KEPT_IN, LABEL, Chosen, with_options
from quality.page import readme_results, write_page
from quality.tasks import WITHOUT_SEARCH, row_task, rows_of

from hba.errors import HbaError
from hba.runtime.validation import words


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
def retrain(names: str, training_epochs: int | None, **options: Any) -> None:
    """Train with what each candidate found, with none, and with a random policy, whole and without some operations."""
    chosen = Chosen(**options)
    tasks = [
        row_task(row, search, tested=False, epochs=training_epochs)
        for row, search in chosen.searches([*words(names), *WITHOUT_SEARCH])
    ]
    kept = chosen.carry_out(tasks, "trainings")
    if kept:
        click.echo(markdown(error_table(kept)))


@main.command()
@with_options
@click.option(
    "--rows",
    default="",
    help="Names, by commas. [default: the default search, the paper's, and all that hba evaluate knows]",
)
def verdict(rows: str, **options: Any) -> None:
    """Train with what the default search found and with all it must beat, and measure the test split."""
    chosen = Chosen(**options)
    _, default = next(chosen.searches([DEFAULT]))
    names = rows_of(words(rows), row_task(DEFAULT, default, tested=True).config)
    found = list(chosen.searches(names))
    chosen.carry_out([search for row, search in found if row in CANDIDATES], "searches")
    tasks = [row_task(row, search, tested=True) for row, search in found]
    kept = chosen.carry_out(tasks, "verdict")
    if kept:
        click.echo(markdown(verdict_table(kept)))
        click.echo(verdict_sentence(kept))


@main.command()
@DATA
@LABEL
@CHOSEN
@KEPT_IN
@DEVICE
@click.option("--rounds", type=click.IntRange(2), default=5, show_default=True)
def cost(data: str, label: str | None, names: str, results: Path, rounds: int, device: str) -> None:
    """Time a step of each candidate, in turns, on an otherwise idle machine."""
    others = [name for name in words(names) if name != PAPER]
    torch.set_num_threads(1)
    record = measured_cost(find_bed(data, label), others, rounds, device, click.echo)
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
