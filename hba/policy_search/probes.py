"""What the probes of a search say about it; they travel in the provenance of its schedule."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from hba.runtime.intervals import interval_of_mean

PROBE_COLUMNS = ("epoch", "predicted_change", "realized_change", "signal_to_noise", "saturated_percent")
"""Of one probe: validation losses in nats, as hba.policy_search.evidence has them."""

LARGEST = 1e30
"""Of a number in a file: what is larger, or is none, was not written by a search."""

NEXT = "compare it with none in whole trainings (hba evaluate)"

Probe = Mapping[str, float | None]


def probes_of(metrics: Sequence[Probe]) -> list[dict[str, float | None]]:
    """The probes among the metrics of all epochs; empty where lambda never moved."""
    probed = [row for row in metrics if row["realized_change"] is not None]
    return [{name: _rounded(row[name]) for name in PROBE_COLUMNS} for row in probed]


def probes_in(provenance: Mapping[str, Any]) -> list[dict[str, float | None]]:
    """The probes in a schedule's provenance, which may come from elsewhere; empty where there are none."""
    probes = provenance.get("probes")
    return [probe for probe in probes if _is_probe(probe)] if isinstance(probes, list) else []


def _is_probe(probe: Any) -> bool:
    return isinstance(probe, dict) and all(name in probe and _is_number(probe[name]) for name in PROBE_COLUMNS)


def what_probes_say(probes: Sequence[Probe]) -> str:
    """One or two sentences: did the moves of the policy lower the validation loss of short trainings?

    They did where it is lower beyond what chance explains (Student's t over probes, which are of one search, and
    measured on the images that it validates with). Trainings of some steps show little of what a whole one does, so
    that nothing more is claimed.
    """
    realized = [change for probe in probes if (change := probe["realized_change"]) is not None]
    if n_diverged := len(probes) - len(realized):
        return (
            "Whether the moves of the policy helped is not known: the validation loss of "
            f"{n_diverged} of {len(probes)} short trainings is not finite."
        )
    if len(realized) < 2:
        return "Whether the moves of the policy helped was not tried out: that takes two probes or more."
    mean, (low, high) = statistics.fmean(realized), interval_of_mean(realized)
    facts = (
        f"in {len(realized)} short trainings they changed the validation loss by {mean:+.4f} on average (below zero is "
        f"better; 95 % interval {low:+.4f} to {high:+.4f})"
    )
    if high < 0:
        return f"The moves of the policy helped for some steps: {facts}. Whether they help a whole training: {NEXT}."
    if low > 0:
        return f"The moves of the policy did harm for some steps: {facts}. Before you use it, {NEXT}."
    return (
        f"Short trainings do not tell whether the moves of the policy helped: {facts}. They are too short to show what "
        f"a whole training does; {NEXT}."
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST)
