"""Records as a frame, numbers as text, and a frame as a table in Markdown."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

import pandas as pd
from scipy.stats import binomtest

from common.records import Record
from hba.policy.spaces import as_markdown
from hba.policy_evaluation.paired import PairedDifference

NOTHING = "-"


def frame_of(records: Iterable[Record]) -> pd.DataFrame:
    """A row for each record: its name, dataset, seed and epochs, what tells it from others, and its results."""
    return pd.DataFrame(
        {
            "name": record.run.name,
            "dataset": record.run.dataset,
            "seed": record.run.seed,
            "epochs": record.run.settings.get("epochs"),
            **record.run.further,
            **record.results,
        }
        for record in records
    )


def markdown(table: pd.DataFrame) -> str:
    """Of cells that are text."""
    return as_markdown(list(table.columns), table.values.tolist())


def spread_text(values: Sequence[float], digits: int = 2) -> str:
    """Mean ± standard deviation; of a single value the value."""
    spread = "" if len(values) < 2 else f" ± {statistics.stdev(values):.{digits}f}"
    return f"{fmean(values):.{digits}f}{spread}"


def rate_text(hits: Iterable[bool]) -> str:
    """`4/5 (38-96 %)`, the hits, all, and the 95 % interval of their rate (Wilson 1927)."""
    hits = list(hits)
    if not hits:
        return NOTHING
    interval = binomtest(sum(hits), len(hits)).proportion_ci(method="wilson")
    return f"{sum(hits)}/{len(hits)} ({100 * interval.low:.0f}-{100 * interval.high:.0f} %)"


def difference(table: pd.DataFrame, name: str, minus: str, measure: str) -> PairedDifference | None:
    """Of two names' measures, paired by seed, in a frame of one dataset and length; None without common seeds."""
    own, other = (_by_seed(table, one, measure) for one in (name, minus))
    return PairedDifference.of(own, minus=other)


def _by_seed(table: pd.DataFrame, name: str, measure: str) -> dict[int, float]:
    rows = table[table["name"] == name]
    return dict(zip(rows["seed"], rows[measure], strict=True))


def difference_text(found: PairedDifference | None) -> str:
    """`-0.66 (-1.12 to -0.19)`, the mean and its 95 % t-interval."""
    if found is None:
        return NOTHING
    return f"{found.mean:+.2f}" + ("" if found.interval is None else " ({:+.2f} to {:+.2f})".format(*found.interval))


def hardware_of(made_by: Mapping[str, Any]) -> str:
    threads = f", {made_by['n_threads']} thread(s)" if made_by["device"] == "cpu" else ""
    return f"{made_by['device_name']}{threads}, PyTorch {made_by['packages']['torch']}"


def origin_of_steps(records: Sequence[Record]) -> str:
    """Of what is timed or counted in steps: the sizes of their batches, hardware and commits."""
    sizes = sorted({record.run.settings["batch_size"] for record in records})
    made = "; ".join(sorted({f"{hardware_of(one.made_by)}, commit `{one.made_by['commit']}`" for one in records}))
    return f"Batches of {', '.join(map(str, sizes))}; {made}."


def origin(records: Iterable[Record]) -> str:
    """Hardware and commits."""
    made_by = [record.made_by for record in records]
    hardware = "; ".join(sorted(set(map(hardware_of, made_by))))
    commits = ", ".join(sorted({f"`{made['commit']}`" for made in made_by if "commit" in made}))
    return f"Hardware: {hardware}." + (f" Commit: {commits}." if commits else "")
