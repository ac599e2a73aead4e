"""hba operations: what can be searched over, and what each magnitude means."""

import click

from hba.operations import registered_operations
from hba.policy.magnitude_table import HEADINGS, LEGEND, as_markdown, magnitude_table
from hba.policy.space import SearchSpace
from hba.policy.spaces import SPACES, find_space

from .operations_files import operations_file_option
from .terminal import console, say, table


@click.command()
@click.option("--space", type=click.Choice(list(SPACES)), default="hba", show_default=True, help="The search space.")
@click.option("--markdown", is_flag=True, help="Print Markdown, as it stands in the documentation.")
@operations_file_option
def operations(space: str, markdown: bool) -> None:
    """Print the operations of a search space, and those of your own: ranges, units and directions of magnitudes."""
    found = find_space(space)
    shown = SearchSpace((*found.operations, *registered_operations()), found.copies, found.count_probabilities)
    rows = magnitude_table(shown)
    if markdown:
        say(as_markdown(HEADINGS, rows))
        return
    drawn = table(HEADINGS, f"Search space {space}")
    for row in rows:
        drawn.add_row(*row)
    console().print(drawn)
    say(LEGEND)
    limits = ", ".join(f"{limit} ({probability:.0%})" for limit, probability in enumerate(shown.count_probabilities))
    say(f"{shown.copies} copies of each. Most operations that an image can get, with probability: {limits}.")
