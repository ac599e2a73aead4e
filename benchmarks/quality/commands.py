"""The command that makes a table's records again."""

from collections.abc import Iterable, Sequence

from common.records import Record

from quality.beds import BEDS, DIGITS
from quality.candidates import CANDIDATES
from quality.plan import EARLIER, block_of
from quality.problems import DEFAULT_PROBLEMS

SEEDS = 5
"""Where a command does not say how many."""


def command_of_suite(script: str, records: Sequence[Record]) -> str:
    """Of searches or trainings of one length. script: with its subcommand."""
    runs = [record.run for record in records]
    return _command(
        script,
        runs[0].dataset,
        candidates=_choice((run.name for run in runs if run.name in CANDIDATES), CANDIDATES),
        problems=_choice((run.further["problem"] for run in runs if "problem" in run.further), DEFAULT_PROBLEMS),
        epochs=runs[0].settings["epochs"],
        training_epochs=runs[0].further.get("training_epochs"),
        seeds=_seeds(records),
    )


def command_of_verdict(records: Sequence[Record]) -> str:
    """What it runs stands in a file: that of the verdict, or of what was run before there was one."""
    run = records[0].run
    plan = None if block_of(run.seed) else f"benchmarks/quality/{EARLIER.name}"
    return _command("search_quality.py verdict", run.dataset, plan=plan)


def command_of_beds(groups: Iterable[Sequence[Record]]) -> str:
    """Of the trainings by which beds are chosen, all of them."""
    records = [record for group in groups for record in group]
    beds = ",".join(dict.fromkeys(record.run.dataset for record in records))
    return _command("search_quality.py choose-beds", DIGITS, beds=beds, data="DIR", seeds=_seeds(records))


def command_of_cost(record: Record) -> str:
    seconds = record.results["seconds_per_step"]
    names = [name for name in seconds if name in CANDIDATES]
    chosen, rounds = _choice(names, CANDIDATES), len(seconds[names[0]])
    return _command("search_quality.py cost", record.run.dataset, candidates=chosen, rounds=rounds)


def _command(script: str, dataset: str, **options: str | int | None) -> str:
    """options: those that are None are omitted."""
    data = {} if dataset == DIGITS else {"bed": dataset}
    if dataset not in BEDS or BEDS[dataset].data is None:
        data["data"] = "DIR"
    given = {name.replace("_", "-"): value for name, value in {**data, **options}.items() if value is not None}
    return f"`python benchmarks/{script}{''.join(f' --{name} {value}' for name, value in given.items())}`"


def _choice(names: Iterable[str], without_option: Iterable[str]) -> str | None:
    """Names by commas, each once; None where these are the ones that a command takes by itself, and without any."""
    chosen = list(dict.fromkeys(names))
    return None if set(chosen) in (set(without_option), set()) else ",".join(chosen)


def _seeds(records: Sequence[Record]) -> int | None:
    n_seeds = 1 + max(record.run.seed for record in records)
    return None if n_seeds == SEEDS else n_seeds
