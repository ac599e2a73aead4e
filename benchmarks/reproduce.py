"""Run a table of the paper again, at its own scale or a smaller one, and write our numbers beside the paper's.

    python benchmarks/reproduce.py TABLE [--scale small] [--data cifar10 DIR "CIFAR-10 (JPEG copy)"] [--estimate]
    python benchmarks/reproduce.py page

TABLE is 2, 3, 4, 5, 6, 7, 8, or `algorithms` (Appendix B). First it says what would run and how long that takes, from
measured steps; then it runs what is not there yet. Each run's results are kept as soon as it ended, in
benchmarks/results, and an interrupted search goes on where it was. `page` writes docs/reproduction.md from all results.
"""

from pathlib import Path

import click
from reproduction.data import Place
from reproduction.estimate import Estimate, estimates
from reproduction.execute import Bench, run_once
from reproduction.page import printed, write_page
from reproduction.runs import Run, Table, Timing, needed_searches
from reproduction.scales import find_scale
from reproduction.tables import TABLES

from hba.data.named import DATASET_NAMES
from hba.errors import HbaError, SettingsError

ROOT = Path(__file__).parent
RESULTS = ROOT / "results"
DOCS = ROOT.parent / "docs"


@click.command(help=__doc__)
@click.argument("table", type=click.Choice([*TABLES, "page"]))
@click.option("--scale", default="small", show_default=True, help="full, small, tiny, or a part of the epochs: 0.1.")
@click.option("--seeds", type=click.IntRange(1), help="Seeds from 0. [default: by scale]")
@click.option(
    "--data",
    "places",
    type=(str, str, str),
    multiple=True,
    metavar="DATASET DIR LABEL",
    help="Folder of images that stands for a dataset, and what to call it. [default: torchvision's files in data/]",
)
@click.option("--device", default="auto", show_default=True)
@click.option("--work", type=click.Path(path_type=Path), default=Path("runs/reproduction"), show_default=True)
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, help="[default: benchmarks/results]")
@click.option("--estimate", is_flag=True, help="Only say what would run, and how long it takes.")
def main(
    table: str,
    scale: str,
    seeds: int | None,
    places: tuple[tuple[str, str, str], ...],
    device: str,
    work: Path,
    results: Path,
    estimate: bool,
) -> None:
    if table == "page":
        write_page(results, DOCS)
        click.echo(f"Page: {DOCS / 'reproduction.md'}")
        return
    try:
        found = find_scale(scale)
        known = {dataset: Place(folder, label) for dataset, folder, label in places}
        if unknown := set(known) - set(DATASET_NAMES):
            raise SettingsError(f"--data: unknown dataset {min(unknown)!r}; known: {', '.join(DATASET_NAMES)}")
        bench = Bench(found, known, results, work, device)
        runs = pending(bench, TABLES[table], seeds or found.seeds)
        if runs and report(estimates(bench, runs)) and not estimate:
            for run, seed in runs:
                do(bench, run, seed)
    except HbaError as error:
        raise click.ClickException(str(error)) from None
    if not estimate:
        click.echo(printed(results, table, found.name))


def pending(bench: Bench, table: Table, n_seeds: int) -> list[tuple[Run, int]]:
    """The runs that the table needs and that have no results yet: searches before trainings with them, timings last."""
    wanted: dict[tuple[Run, int], None] = {}
    for seed in range(n_seeds):
        for cell in table.cells:
            if bench.covers(cell.run):
                for run in (*needed_searches(cell.run), cell.run):
                    # A timing takes its spread from its rounds.
                    wanted[run, 0 if isinstance(run, Timing) else seed] = None
    missing = [(run, seed) for run, seed in wanted if not bench.is_done(run, seed)]
    return sorted(missing, key=lambda item: isinstance(item[0], Timing))


def report(found: list[Estimate]) -> bool:
    """Print what would run; True where anything can."""
    for one in found:
        what = f"{one.seconds / 60:7.1f} min" if one.seconds is not None else f"cannot run: {one.problem}"
        click.echo(f"{one.n_seeds} x {one.run.name}: {what}")
    total = sum(one.n_seeds * one.seconds for one in found if one.seconds is not None)
    click.echo(f"in all {total / 3600:.2f} hours, by steps measured now")
    return any(one.seconds is not None for one in found)


def do(bench: Bench, run: Run, seed: int) -> None:
    try:
        results = run_once(bench, run, seed)
    except HbaError as error:
        click.echo(f"{run.name}, seed {seed}: {error}", err=True)
        return
    shown = {name: round(value, 3) for name, value in results.items() if isinstance(value, float)}
    click.echo(f"{run.name}, seed {seed}: {shown}")


if __name__ == "__main__":
    main()
