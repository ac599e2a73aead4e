"""How long an import of hba takes, and each command that only prints what is known.

    python benchmarks/start_up.py [--runs 5]

Prints for each the median of several runs, in seconds, each in a new process.
"""

import statistics
import subprocess
import sys
import time

import click

COMMANDS = (("--help",), ("--version",), ("policies",), ("presets",), ("operations",))


@click.command(help=__doc__)
@click.option(
    "--runs", type=click.IntRange(1), default=5, show_default=True, help="Of each, after one that is not timed."
)
def main(runs: int) -> None:
    import_hba = [sys.executable, "-c", "import hba"]
    click.echo(f"{'import hba':<16} {median_seconds(import_hba, runs):.2f} s")
    for arguments in COMMANDS:
        name = f"hba {' '.join(arguments)}"
        click.echo(f"{name:<16} {median_seconds([sys.executable, '-m', 'hba', *arguments], runs):.2f} s")


def median_seconds(command: list[str], runs: int) -> float:
    """Of the runs of a program, which must end well; one more before them loads its files."""
    return statistics.median([_seconds(command) for _ in range(runs + 1)][1:])


def _seconds(command: list[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
