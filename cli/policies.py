"""hba policies: the schedules that ship with the package."""

import click

from hba.runtime.wording import percent
from hba.schedule.shipped import shipped_schedules

from .terminal import console, json_option, print_json, table


@click.command()
@json_option
def policies(as_json: bool) -> None:
    """List the schedules that ship with the package.

    Their names work wherever a command takes a SCHEDULE.
    """
    if as_json:
        print_json([schedule._asdict() for schedule in shipped_schedules()])
        return
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
