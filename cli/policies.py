"""hba policies: the schedules that ship with the package."""

import click

import hba

from .terminal import console, percent, table


@click.command()
def policies() -> None:
    """List the schedules that ship with the package; their names work wherever a SCHEDULE is asked for."""
    shown = table(("name", "dataset", "model", "epochs", "validation error", "search seconds"))
    for name in hba.policy_names():
        schedule = hba.load_policy(name)
        origin = schedule.provenance
        shown.add_row(
            name,
            str(origin.get("dataset")),
            str(origin.get("model")),
            str(schedule.epochs),
            percent(origin.get("val_error_percent")),
            str(origin.get("wall_seconds")),
        )
    console().print(shown)
