"""Run a table of the paper again, at its own scale or a smaller one, and write our numbers beside the paper's.

    python benchmarks/reproduce.py TABLE [--scale small] [--data cifar10 DIR "CIFAR-10 (JPEG copy)"] [--estimate]
    python benchmarks/reproduce.py page

TABLE is 2, 3, 4, 5, 6, 7, 8, `algorithms` (Appendix B), or a table of what HBA builds on: stn-table-1, stn-table-2,
delta-stn-table-1. It runs what is not there yet: searches, trainings with what
they found, then timings. Each run's results are kept as soon as it ended, in benchmarks/results, and an interrupted
search is resumed. --estimate only says how long that will take, from measured steps. `page` writes docs/reproduction.md
from all results.
"""

from pathlib import Path

import click
from common.images import Place
from common.records import DOCS, RESULTS, store_of
from common.running import carry_out
from common.tables import markdown
from reproduction.page import by_scale, cell_table, write_page
from reproduction.scales import find_scale
from reproduction.self_tuning import DATASETS
from reproduction.tables import TABLES
from reproduction.tasks import Bench, question_of, tasks_of

from hba.data.builtin import DATASET_NAMES
from hba.errors import HbaError, SettingsError


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
@click.option("--only", metavar="WORD", help="Runs whose names begin so, such as mnist-mlp. [default: all]")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="At a time, a thread each.")
@click.option("--device", default="auto", show_default=True)
@click.option("--work", type=click.Path(path_type=Path), default=Path("runs/reproduction"), show_default=True)
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, help="[default: benchmarks/results]")
@click.option("--estimate", is_flag=True, help="Only say what would run, and how long it takes.")
def main(
    table: str,
    scale: str,
    seeds: int | None,
    places: tuple[tuple[str, str, str], ...],
    only: str | None,
    jobs: int,
    device: str,
    work: Path,
    results: Path,
    estimate: bool,
) -> None:
    if table == "page":
        click.echo(f"Page: {write_page(results, DOCS)}")
        return
    try:
        found = find_scale(scale)
        known = {dataset: Place(folder, label) for dataset, folder, label in places}
        names = tuple(dict.fromkeys((*DATASET_NAMES, *DATASETS)))
        if unknown := set(known) - set(names):
            raise SettingsError(f"--data: unknown dataset {min(unknown)!r}; known: {', '.join(names)}")
        bench, asked = Bench(found, known, work, device, results), TABLES[table]
        n_seeds = seeds or asked.seeds.get(found.name, found.seeds)
        store = store_of(results, question_of(asked))
        searches, trainings, timings = tasks_of(bench, asked, n_seeds)
        for tasks, at_a_time in ((searches, jobs), (trainings, jobs), (timings, 1)):
            if asked_for := [task for task in tasks if task.run.name.startswith(only or "")]:
                carry_out(asked_for, store, device, at_a_time, estimate)
    except HbaError as error:
        raise click.ClickException(str(error)) from None
    if not estimate:
        click.echo(f"{TABLES[table].title}, scale {found.name}")
        click.echo(markdown(cell_table(TABLES[table], by_scale(results).get(found.name, {}))))


if __name__ == "__main__":
    main()
