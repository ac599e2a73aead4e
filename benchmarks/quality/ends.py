"""What a search left of each operation at its end."""

from hba.schedule import Schedule
from hba.summary import summarize

PROBABILITY, STRENGTH = "probability", "strength"


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
