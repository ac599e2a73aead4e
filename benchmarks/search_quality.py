"""Candidates for the settings of a search, compared on validation images, and the verdict on the default one.

    python benchmarks/search_quality.py candidates [--data DIR] [--candidates paper,calibrate] [--seeds 5] [--jobs 2]
    python benchmarks/search_quality.py retrain [--data DIR] ...
    python benchmarks/search_quality.py verdict [--data DIR] ...
    python benchmarks/search_quality.py cost [--data DIR] [--candidates lookahead-draws] [--rounds 5]
    python benchmarks/search_quality.py page

`candidates` searches with each and keeps the search network's final validation error. `retrain` trains a fresh network
on the search's training images with each schedule that was found (searching it first where that is missing), with none
and with a random policy, whole and without some operations, and keeps its error on the validation images. Only
`verdict` opens the test split: it trains with what the default search found, with what the paper's found, and with all
that `hba evaluate --against` knows by name. `cost` times steps. Runs of the same seed have the same weights and
batches. Each run's results are kept as soon as it ended, in benchmarks/results/quality, and what is kept is not run
again. `page` writes docs/search-quality.md from all that is kept, planted problems (benchmarks/planted.py) and closed
forms (benchmarks/closed_forms.py) too.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import click
import torch
from quality.beds import DIGITS, Bed, find_bed
from quality.candidates import CANDIDATES, DEFAULT, PAPER
from quality.cost import COST_HEADINGS, cost_rows, keep_cost, measure_cost
from quality.error_tables import ERROR_HEADINGS, VERDICT_HEADINGS, error_rows, verdict_differences, verdict_rows
from quality.page import write_page
from quality.suite import AnyTask, Suite, carry_out
from quality.verdict_runs import VerdictTask, rows_of, train_for_verdict
from quality.whole_search import RIVALS, SearchTask, TrainingTask, search_whole, train_whole

from hba.config.search import SearchConfig
from hba.errors import HbaError
from hba.policy.magnitude_table import as_markdown
from hba.policy_evaluation.verdict import verdict
from hba.runtime.validation import words

ROOT = Path(__file__).parent
RESULTS = ROOT / "results" / "quality"
DOCS = ROOT.parent / "docs"

Command = TypeVar("Command", bound=Callable[..., None])

_DATA = click.option("--data", default=DIGITS, show_default=True, help="digits, or a folder of images like CIFAR-10.")
_LABEL = click.option("--label", help="What records call the folder. [default: its name]")
_CANDIDATES = click.option(
    "--candidates", "names", default=",".join(CANDIDATES), help="Names, by commas. [default: all]"
)
_ROWS = click.option(
    "--rows",
    default="",
    help="Names, by commas. [default: the default search, the paper's, and all that hba evaluate knows]",
)
_RESULTS = click.option(
    "--results", type=click.Path(path_type=Path), default=RESULTS, help="[default: benchmarks/results/...]"
)
_OPTIONS = (
    _DATA,
    _LABEL,
    click.option("--seeds", type=click.IntRange(1), default=5, show_default=True, help="Runs of each, seeds from 0."),
    click.option("--epochs", type=click.IntRange(1), help="Of a search. [default: by data]"),
    click.option("--jobs", type=click.IntRange(1), default=2, show_default=True, help="At a time, a thread each."),
    click.option("--device", default="cpu", show_default=True),
    click.option("--work", type=click.Path(path_type=Path), default=Path("runs/quality"), show_default=True),
    _RESULTS,
    click.option("--estimate", is_flag=True, help="Only say what would run, and how long it takes."),
)


def _with_options(command: Command) -> Command:
    return reduce(lambda wrapped, option: option(wrapped), reversed(_OPTIONS), command)


@click.group(help=__doc__)
def main() -> None:
    pass


@main.command()
@_with_options
@_CANDIDATES
def candidates(
    data: str, label: str | None, names: str, work: Path, results: Path, jobs: int, estimate: bool, **further: Any
) -> None:
    """Search with each candidate."""
    try:
        bed = find_bed(data, label)
        own_work = work / bed.place.label
        tasks = [SearchTask(name, config, own_work) for name, config in configs(bed, words(names), **further)]
        folder = results / bed.place.label / "searches"
        _do(Suite(bed.place.label, further["device"], folder, tuple(tasks), search_whole), jobs, estimate)
    except HbaError as error:
        raise click.ClickException(str(error)) from None


@main.command()
@_with_options
@_CANDIDATES
@click.option("--training-epochs", type=click.IntRange(1), help="Of a training. [default: as the search]")
def retrain(
    data: str,
    label: str | None,
    names: str,
    work: Path,
    results: Path,
    jobs: int,
    estimate: bool,
    training_epochs: int | None,
    **further: Any,
) -> None:
    """Train with what each candidate found, with none, and with a random policy, whole and without some operations."""
    try:
        bed = find_bed(data, label)
        own_work = work / bed.place.label
        tasks = [
            TrainingTask(name, config, own_work, training_epochs or config.epochs)
            for name, config in configs(bed, [*words(names), *RIVALS], **further)
        ]
        folder = results / bed.place.label / "trainings"
        _do(Suite(bed.place.label, further["device"], folder, tuple(tasks), train_whole), jobs, estimate)
    except HbaError as error:
        raise click.ClickException(str(error)) from None


@main.command(name="verdict")
@_with_options
@_ROWS
def verdict_command(
    data: str, label: str | None, rows: str, work: Path, results: Path, jobs: int, estimate: bool, **further: Any
) -> None:
    """Train with what the default search found and with all it must beat, and measure the test split."""
    try:
        bed = find_bed(data, label)
        own_work, own_results, device = work / bed.place.label, results / bed.place.label, further["device"]
        ((_, config),) = configs(bed, [DEFAULT], **{**further, "seeds": 1})
        names = rows_of(words(rows), VerdictTask(DEFAULT, config, own_work).training_config)
        tasks = [VerdictTask(row, config, own_work) for row, config in configs(bed, names, **further)]
        found = [SearchTask(task.candidate, task.config, own_work) for task in tasks if task.candidate in CANDIDATES]
        carry_out(Suite(bed.place.label, device, own_results / "searches", tuple(found), search_whole), jobs, estimate)
        suite = Suite(bed.place.label, device, own_results / "verdict", tuple(tasks), train_for_verdict)
        carry_out(suite, jobs, only_estimate=estimate)
        if not estimate:
            click.echo(as_markdown(VERDICT_HEADINGS, verdict_rows(suite.kept())))
            click.echo(verdict(verdict_differences(suite.kept())))
    except HbaError as error:
        raise click.ClickException(str(error)) from None


@main.command()
@_DATA
@_LABEL
@_CANDIDATES
@_RESULTS
@click.option("--device", default="cpu", show_default=True)
@click.option("--rounds", type=click.IntRange(2), default=5, show_default=True)
def cost(data: str, label: str | None, names: str, results: Path, rounds: int, device: str) -> None:
    """Time a step of each candidate, in turns, on an otherwise idle machine."""
    try:
        bed = find_bed(data, label)
        others = [name for name in words(names) if name != PAPER]
        torch.set_num_threads(1)
        measured = measure_cost(bed, others, rounds, device, click.echo)
        keep_cost(measured, results)
        click.echo(as_markdown(COST_HEADINGS, cost_rows(measured)))
    except HbaError as error:
        raise click.ClickException(str(error)) from None


def configs(
    bed: Bed, names: Sequence[str], seeds: int, epochs: int | None, device: str
) -> Iterator[tuple[str, SearchConfig]]:
    """Name and settings of each run, seed by seed, so that an interrupted suite has all names on the same ones.

    What is no candidate takes the settings of the default one.
    """
    length = {} if epochs is None else {"epochs": epochs}
    for seed in range(seeds):
        for name in names:
            yield name, bed.config(name if name in CANDIDATES else DEFAULT, seed, **length, device=device)


def _do(suite: Suite[AnyTask], jobs: int, estimate: bool) -> None:
    carry_out(suite, jobs, only_estimate=estimate)
    if not estimate:
        click.echo(as_markdown(ERROR_HEADINGS, error_rows(suite.kept())))


@main.command()
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, help="[default: benchmarks/results/...]")
def page(results: Path) -> None:
    """Write docs/search-quality.md."""
    write_page(results, DOCS)
    click.echo(f"Page: {DOCS / 'search-quality.md'}")


if __name__ == "__main__":
    main()
