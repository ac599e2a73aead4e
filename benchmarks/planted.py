"""Planted answers: does the search raise the operation that validation images went through?

    python benchmarks/planted.py [--candidates paper,calibrate] [--problems rotated,inverted] [--seeds 5] [--jobs 2]
    python benchmarks/planted.py --list

Each validation image went through one operation, or a pair, with a magnitude of its own; training images stay as they
are. A search should then raise these operations above the others: it *recovered* them where each is among the first
three by probability at the end, mean over copies. Each run's results are kept as soon as it ended, in
benchmarks/results/quality/planted, and what is kept is not run again. The printed numbers are of what is kept for the
settings asked for.
"""

from pathlib import Path

import click
from quality.beds import DIGITS, Bed, find_bed
from quality.candidates import CANDIDATES
from quality.planted_search import PlantedTask, search_planted
from quality.planted_tables import RUN_HEADINGS, rate_rows, run_rows
from quality.problems import DEFAULT_PROBLEMS, PROBLEMS, find_problem, plant, share_of_changed_values
from quality.suite import Suite, carry_out
from reproduction.data import Images

from hba.errors import HbaError
from hba.policy.magnitude_table import as_markdown
from hba.runtime.validation import words

PLANTED_EPOCHS = 120
RESULTS = Path(__file__).parent / "results" / "quality" / "planted"


@click.command(help=__doc__)
@click.option("--candidates", default=",".join(CANDIDATES), help="Names, separated by commas. [default: all]")
@click.option("--problems", default=",".join(DEFAULT_PROBLEMS), show_default=True, help="Names, separated by commas.")
@click.option("--seeds", type=click.IntRange(1), default=5, show_default=True, help="Searches of each, seeds from 0.")
@click.option("--epochs", type=click.IntRange(1), default=PLANTED_EPOCHS, show_default=True)
@click.option("--jobs", type=click.IntRange(1), default=2, show_default=True, help="Searches at a time, a thread each.")
@click.option("--data", default=DIGITS, show_default=True, help="digits, or a folder of images like CIFAR-10.")
@click.option("--label", help="What records call the folder. [default: its name]")
@click.option("--device", default="cpu", show_default=True)
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, help="[default: benchmarks/results/...]")
@click.option("--estimate", is_flag=True, help="Only say what would run, and how long it takes.")
@click.option("--runs", "each", is_flag=True, help="Print every run too.")
@click.option("--list", "only_list", is_flag=True, help="Only say what candidates and problems there are.")
def main(
    candidates: str,
    problems: str,
    seeds: int,
    epochs: int,
    jobs: int,
    data: str,
    label: str | None,
    device: str,
    results: Path,
    estimate: bool,
    each: bool,
    only_list: bool,
) -> None:
    try:
        bed = find_bed(data, label)
        if only_list:
            print_list(bed)
            return
        suite = planted_suite(bed, words(candidates), words(problems), seeds, epochs, device, results)
        carry_out(suite, jobs, only_estimate=estimate)
    except HbaError as error:
        raise click.ClickException(str(error)) from None
    if not estimate:
        kept = suite.kept()
        if each:
            click.echo(as_markdown(RUN_HEADINGS, run_rows(kept)))
        click.echo(as_markdown(*rate_rows(kept)))


def planted_suite(
    bed: Bed,
    candidates: list[str],
    problems: list[str],
    n_seeds: int,
    epochs: int,
    device: str,
    results: Path,
) -> Suite[PlantedTask]:
    """Seed by seed, so that an interrupted suite has all candidates on the same ones."""
    for problem in problems:
        find_problem(problem)
    shared = {**bed.planted, "epochs": epochs, "validate_every": epochs, "device": device}
    tasks = [
        PlantedTask(candidate, problem, bed.config(candidate, seed, **shared))
        for seed in range(n_seeds)
        for candidate in candidates
        for problem in problems
    ]
    return Suite(bed.place.label, device, results, tuple(tasks), search_planted)


def print_list(bed: Bed) -> None:
    """Candidates; problems with the share of values of the bed's validation images that each changes."""
    for name, candidate in CANDIDATES.items():
        click.echo(f"candidate {name}: {candidate.text}")
    data = Images().of_search(bed.config(next(iter(CANDIDATES)), 0, device="cpu"), None)
    for name, problem in PROBLEMS.items():
        share = share_of_changed_values(data, plant(data, problem, 0))
        what = ", ".join(
            f"{one.operation}{'' if one.magnitude is None else ' {:g} to {:g}'.format(*one.magnitude)}"
            for one in problem
        )
        click.echo(f"problem {name}: {what or 'nothing planted'}; changes {100 * share:.0f} % of values")


if __name__ == "__main__":
    main()
