"""hba policies: the schedules that ship with the package."""

import click

from hba.schedule.shipped import shipped_schedules

from .terminal import console, percent, table


@click.command()
def policies() -> None:
    """List the schedules that ship with the package.

    Their names work wherever a command takes a SCHEDULE.
    """
    shown = table(("name", "dataset", "model", "epochs", "validation error", "search seconds"))
    for schedule in shipped_schedules():
        origin = schedule.provenance
        shown.add_row(
            schedule.name,
            str(origin.get("dataset")),
            str(origin.get("model")),
            str(schedule.epochs),
            percent(origin.get("val_error_percent")),
            str(origin.get("wall_seconds")),
        )
    console().print(shown)
