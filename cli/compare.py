"""hba compare: runs side by side."""

from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

import hba
from hba.report.figures import Table

from .operations_files import operations_file_option
from .terminal import console, table


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@operations_file_option
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="An HTML file to write besides.")
def compare(runs: tuple[Path, ...], out: Path | None) -> None:
    """Put RUNS side by side: what they were set to, and what they found.

    RUNS are folders of searches and of evaluations.
    """
    found = hba.compare(*runs)
    printer = console()
    for title, content in found.tables().items():
        _print(title, content, printer)
    if out is not None:
        printer.print(f"Comparison: {found.save(out)}")


def _print(title: str, content: Table, printer: Console) -> None:
    made = table(content.headings, title)
    for row in content.rows:
        made.add_row(*map(Text, row))
    printer.print(made)
