"""hba report: the page of a run, made again."""

from pathlib import Path

import click

import hba

from .operations_files import operations_file_option
from .terminal import say


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@operations_file_option
def report(run: Path) -> None:
    """Write the report of RUN, the folder of a search or an evaluation, again.

    A search and an evaluation write it when they end. It is one file, report.html, that any browser opens.
    """
    say(f"Report: {hba.write_report(run)}")
