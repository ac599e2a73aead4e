"""The command that makes a table's records again."""

from collections.abc import Iterable

from quality.beds import DIGITS
from quality.candidates import CANDIDATES
from quality.planted_tables import Records
from quality.problems import DEFAULT_PROBLEMS
from quality.verdict_runs import STANDARD_ROWS

SEEDS = 5
"""Where a command does not say how many."""


def command_of_suite(script: str, records: Records) -> str:
    """Of searches or trainings of one length. script: with its subcommand."""
    kept = records[0][1]
    options = {
        "candidates": _choice((name for name, _ in records if name in CANDIDATES), CANDIDATES),
        "problems": _choice((one.run["problem"] for _, one in records if "problem" in one.run), DEFAULT_PROBLEMS),
        "epochs": str(kept.shared["settings"]["epochs"]),
        "training-epochs": str(kept.run.get("training_epochs", "")),
        "seeds": _seeds(records),
    }
    return _command(script, kept.shared["dataset"], options)


def command_of_verdict(records: Records) -> str:
    rows = [name for name, _ in records]
    # The command leaves cutout away where the baseline has it.
    standard = [name for name in STANDARD_ROWS if name != "cutout" or name in rows]
    kept = records[0][1]
    epochs = str(kept.shared["settings"]["epochs"])
    options = {"rows": _choice(rows, standard), "epochs": epochs, "seeds": _seeds(records)}
    return _command("search_quality.py verdict", kept.shared["dataset"], options)


def command_of_cost(dataset: str, names: Iterable[str], rounds: int) -> str:
    options = {"candidates": _choice(names, CANDIDATES), "rounds": str(rounds)}
    return _command("search_quality.py cost", dataset, options)


def _command(script: str, dataset: str, options: dict[str, str]) -> str:
    """options: by name; what is empty is left away."""
    data = {} if dataset == DIGITS else {"data": "DIR", "label": dataset}
    given = [f" --{name} {value}" for name, value in {**data, **options}.items() if value]
    return f"`python benchmarks/{script}{''.join(given)}`"


def _choice(names: Iterable[str], without_option: Iterable[str]) -> str:
    """Names by commas, each once; none where these are the ones that a command takes by itself."""
    chosen = list(dict.fromkeys(names))
    return "" if set(chosen) == set(without_option) else ",".join(chosen)


def _seeds(records: Records) -> str:
    n_seeds = 1 + max(kept.run["seed"] for _, kept in records)
    return "" if n_seeds == SEEDS else str(n_seeds)
