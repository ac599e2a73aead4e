"""The table of docs/speed.md."""

from collections.abc import Sequence

import pandas as pd
from common.records import Record
from common.tables import hardware_of, markdown, spread_text

from steps.floors import FLOORS

MARK = "steps"


def table_of(records: Sequence[Record]) -> str:
    """Markdown: each algorithm's seconds, those of its floor, and their ratio, within a round; of each size a table."""
    parts = [_of_one(record) for record in records]
    return "\n\n".join(parts) if parts else "Nothing was run."


def _of_one(record: Record) -> str:
    made, settings = record.made_by, record.run.settings
    seconds, floors = record.results["seconds_per_step"], record.results["floor_seconds_per_step"]
    table = pd.DataFrame(
        {
            "algorithm": f"`{name}`",
            "seconds per step": spread_text(seconds[name], 4),
            "floor": spread_text(floors[name], 4),
            "times the floor": spread_text([one / two for one, two in zip(seconds[name], floors[name], strict=True)]),
            "the floor is": FLOORS[name].why,
        }
        for name in seconds
    )
    size = settings["image_size"]
    described = f"{settings['model']}, {size}x{size} pixels, batches of {settings['batch_size']}"
    rounds = len(next(iter(seconds.values())))
    return f"{described}; {rounds} rounds; {hardware_of(made)}; commit `{made['commit']}`.\n\n{markdown(table)}"
