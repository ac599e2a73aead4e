"""Planted answers: does the search raise the operation that validation images went through?

    python benchmarks/planted.py [--candidates paper,calibrate] [--problems rotated,inverted] [--seeds 5] [--jobs 2]
    python benchmarks/planted.py --list

Each validation image went through one operation, or a pair, with a magnitude of its own; training images stay as they
are. A search should then raise these operations above the others: it *recovered* them where each is among the first
three by how many logits its probability rose, mean over copies. Each run's results are kept as soon as it ended, in
benchmarks/results, and what is kept is not run again. The printed numbers are of what is kept for the settings asked
for.
"""

from typing import Any

import click
from common.tables import markdown
from quality.beds import Bed
from quality.candidates import CANDIDATES, DEFAULT
from quality.options import CHOSEN, Chosen, with_options
from quality.planted_tables import rate_table, run_frame
from quality.problems import DEFAULT_PROBLEMS, PROBLEMS, find_problem, plant, share_of_changed_values
from quality.tasks import PlantedTask, planted

from hba.errors import HbaError
from hba.utils.settings import words

PLANTED_EPOCHS = 120


@click.command(help=__doc__)
@with_options
@CHOSEN
@click.option("--problems", default=",".join(DEFAULT_PROBLEMS), show_default=True, help="Names, separated by commas.")
@click.option("--runs", "each", is_flag=True, help="Print every run too.")
@click.option("--list", "only_list", is_flag=True, help="Only say what candidates and problems there are.")
def main(names: str, problems: str, each: bool, only_list: bool, epochs: int | None, **options: Any) -> None:
    chosen = Chosen(epochs=epochs or PLANTED_EPOCHS, **options)
    try:
        if only_list:
            print_list(chosen.bed)
            return
        kept = chosen.carry_out(planted_tasks(chosen, words(names), words(problems)), "planted")
    except HbaError as error:
        raise click.ClickException(str(error)) from None
    if kept and each:
        click.echo(run_frame(kept).to_string(index=False, na_rep="-"))
    if kept:
        click.echo(markdown(rate_table(kept)))


def planted_tasks(chosen: Chosen, candidates: list[str], problems: list[str]) -> list[PlantedTask]:
    for problem in problems:
        find_problem(problem)
    shared = {**chosen.bed.planted, "validate_every": chosen.epochs}
    return [planted(search, problem) for _, search in chosen.searches(candidates, **shared) for problem in problems]


def print_list(bed: Bed) -> None:
    """Candidates; problems with the share of values of the bed's validation images that each changes."""
    for name, candidate in CANDIDATES.items():
        click.echo(f"candidate {name}: {candidate.text}")
    data = bed.search(DEFAULT, 0, device="cpu").data
    for name, problem in PROBLEMS.items():
        share = share_of_changed_values(data, plant(data, problem, 0))
        what = ", ".join(
            f"{one.operation}{'' if one.magnitude is None else ' {:g} to {:g}'.format(*one.magnitude)}"
            for one in problem
        )
        click.echo(f"problem {name}: {what or 'nothing planted'}; changes {100 * share:.0f} % of values")


if __name__ == "__main__":
    main()
