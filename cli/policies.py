"""hba policies: the schedules that ship with the package."""

import click
from rich.table import Table

import hba

from .terminal import console, percent


@click.command()
def policies() -> None:
    """List the schedules that ship with the package; their names work wherever a SCHEDULE is asked for."""
    table = Table()
    for heading in ("name", "dataset", "model", "epochs", "validation error", "search seconds"):
        table.add_column(heading)
    for name in hba.policy_names():
        schedule = hba.load_policy(name)
        origin = schedule.provenance
        table.add_row(
            name,
            str(origin.get("dataset")),
            str(origin.get("model")),
            str(schedule.epochs),
            percent(origin.get("val_error_percent")),
            str(origin.get("wall_seconds")),
        )
    console().print(table)
