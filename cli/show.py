"""hba show: what a schedule does, as a table and a picture."""

from collections.abc import Sequence
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

import hba
from hba.pictures import draw_schedule
from hba.probes import PROBE_COLUMNS, Probe, moved_by, probes_in
from hba.summary import OperationSummary, key_epochs, summarize

from .options import operations_file_option
from .terminal import console

PROBE_LEGEND = (
    "predicted: what gradients promised of the moves since the probe before, as a rule too much; realized: what the "
    "moves did in two trainings of ten steps; signal to noise: of one gradient; saturated: hyperparameters at an end "
    "of their range"
)


@click.command()
@click.argument("schedule")
@operations_file_option
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The picture. [default: beside the file, ending .png]",
)
def show(schedule: str, out: Path | None) -> None:
    """Print probability and magnitude of each operation of SCHEDULE, and draw them over epochs to a PNG file."""
    loaded = hba.load_policy(schedule)
    path = Path(schedule)
    if out is None:
        out = (
            path / "policy.png"
            if path.is_dir()
            else path.with_suffix(".png")
            if path.exists()
            else Path(f"{schedule}.png")
        )
    epochs = key_epochs(loaded)
    title = f"{schedule}: {loaded.epochs} epochs; means over {loaded.space.copies} copies, strongest last epoch first"
    table = Table(title=Text(title))
    table.add_column("operation")
    for quantity in ("prob.", "magn."):
        for epoch in epochs:
            table.add_column(f"{quantity}\nepoch {epoch + 1}", justify="right")
    table.add_column("unit of the magnitude")
    for summary in summarize(loaded, epochs):
        table.add_row(*_cells(summary, len(epochs)))
    console().print(table)
    if probes := probes_in(loaded.provenance):
        console().print(_probe_table(probes))
        console().print(PROBE_LEGEND)
        console().print(moved_by(probes))
    draw_schedule(loaded, out)
    console().print(f"Picture: {out}")


def _probe_table(probes: Sequence[Probe]) -> Table:
    table = Table(
        title=Text(
            "How far to trust the search: what its moves did to the validation loss (nats, below zero is better)"
        )
    )
    for name in PROBE_COLUMNS:
        table.add_column(name.replace("_", " ").replace("percent", "%"), justify="right")
    for probe in probes:
        numbers = [probe[name] for name in PROBE_COLUMNS]
        table.add_row(*("-" if number is None else f"{number:.4g}" for number in numbers))
    return table


def _cells(summary: OperationSummary, n_epochs: int) -> list[str]:
    magnitudes = [f"{value:.3g}" for value in summary.magnitude] if summary.magnitude else ["-"] * n_epochs
    unit = summary.operation.unit or "-"
    return [summary.operation.name, *(f"{value:.2f}" for value in summary.probability), *magnitudes, unit]
