"""Reproduce a table of the paper, at its own scale or a smaller one, and write our
numbers beside the paper's.

    python benchmarks/reproduce.py TABLE [--scale small] [--data cifar10 DIR "CIFAR-10
        (JPEG copy)"] [--dry-run]
    python benchmarks/reproduce.py page

TABLE is 2, 3, 4, 5, 6, 7 or `algorithms` (Appendix B). The command runs what is
missing: searches, trainings with the schedules found, then timings. Each run is stored
in benchmarks/results as soon as it ends, and an interrupted search is resumed. `page`
writes docs/reproduction.md from all results.
"""

from pathlib import Path

import click
from common.images import Place
from common.options import DRY_RUN, KEPT_IN, RunOptions, work
from common.records import DOCS
from common.running import carry_out
from common.tables import markdown
from reproduction.page import QUESTION, by_scale, cell_table, write_page
from reproduction.scales import SCALES
from reproduction.tables import TABLES
from reproduction.tasks import Bench, tasks_of

from hba.data.arrays import DATASET_NAMES
from hba.errors import HbaError, SettingsError


@click.command(help=__doc__)
@click.argument("table", type=click.Choice([*TABLES, "page"]))
@click.option(
    "--scale", default="small", show_default=True, type=click.Choice(list(SCALES))
)
@click.option(
    "--seeds", type=click.IntRange(1), help="Seeds from 0. [default: by scale]"
)
@click.option(
    "--data",
    "places",
    type=(str, str, str),
    multiple=True,
    metavar="DATASET DIR LABEL",
    help=(
        "Folder of images that stands for a dataset, and its label. [default:"
        " torchvision's files in data/]"
    ),
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="At a time, one thread each.",
)
@click.option("--device", default="auto", show_default=True)
@work("runs/reproduction")
@KEPT_IN
@DRY_RUN
def main(
    table: str,
    scale: str,
    seeds: int | None,
    places: tuple[tuple[str, str, str], ...],
    jobs: int,
    device: str,
    work: Path,
    results: Path,
    dry_run: bool,
) -> None:
    if table == "page":
        click.echo(f"Page: {write_page(results, DOCS)}")
        return
    try:
        chosen_scale = SCALES[scale]
        data_places = {
            dataset: Place(folder, label) for dataset, folder, label in places
        }
        if unknown := set(data_places) - set(DATASET_NAMES):
            raise SettingsError(
                f"--data: unknown dataset {min(unknown)!r}; known:"
                f" {', '.join(DATASET_NAMES)}"
            )
        bench = Bench(chosen_scale, data_places, work, device)
        searches, trainings, timings = tasks_of(
            bench, TABLES[table], seeds or chosen_scale.seeds
        )
        for tasks, at_a_time in ((searches, jobs), (trainings, jobs), (timings, 1)):
            options = RunOptions(at_a_time, device, work, results, dry_run)
            carry_out(tasks, QUESTION, options)
    except HbaError as error:
        raise click.ClickException(str(error)) from None
    if not dry_run:
        click.echo(f"{TABLES[table].title}, scale {chosen_scale.name}")
        click.echo(
            markdown(
                cell_table(TABLES[table], by_scale(results).get(chosen_scale.name, {}))
            )
        )


if __name__ == "__main__":
    main()
