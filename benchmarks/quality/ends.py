"""What is kept of a search: its last numbers, and what it left of each operation at its end."""

import hba
from hba.schedule.schedule import Schedule
from hba.schedule.summary import summarize
from quality.pool import Results

PROBABILITY, STRENGTH = "probability", "strength"


def results_of(search: hba.SearchResult) -> Results:
    """The search network's last validation error and loss, its seconds, and each operation as the search left it."""
    assert search.schedule is not None
    last = {name: search.metrics[-1][name] for name in ("val_error_percent", "val_loss", "seconds")}
    return {**last, "end": end_of(search.schedule)}


def end_of(schedule: Schedule) -> dict[str, dict[str, float | None]]:
    """By operation: probability, magnitude in its unit, and strength in the last epoch, as means over its copies."""
    return {
        summary.operation.name: {
            PROBABILITY: round(summary.probability[-1], 5),
            "magnitude": None if summary.magnitude is None else round(summary.magnitude[-1], 5),
            STRENGTH: round(summary.strength[-1], 5),
        }
        for summary in summarize(schedule, (schedule.epochs - 1,))
    }
