"""The table of joint tuning in docs/regularization.md, from what is kept."""

from collections.abc import Sequence

import pandas as pd
from common.records import Record, newest
from common.tables import difference, frame_of, markdown, spread_text

from hba.policy_evaluation.paired import PairedDifference
from joint_tuning.beds import JOINT_BEDS
from joint_tuning.tasks import JOINT, ROWS

MARK = "joint"
MEASURES = {"test_error_percent": "test error, %", "test_loss": "test loss"}


def joint_table(records: Sequence[Record]) -> str:
    """Markdown: of each bed the rows, with their errors and losses, and what the joint search has minus them."""
    parts = []
    kept = newest(records, lambda run: (run.dataset, run.name))
    for bed, what in ((name, JOINT_BEDS[name].text) for name in JOINT_BEDS):
        frame = frame_of([record for record in kept if record.run.dataset == bed])
        if len(frame):
            first, last = int(frame["seed"].min()), int(frame["seed"].max())
            epochs = int(frame["epochs"].max())
            parts.append(f"**{bed}**: {what}; {epochs} epochs, seeds {first} to {last}.\n\n{markdown(_rows(frame))}")
    return "\n\n".join(parts) or "Nothing was run."


def _rows(frame: pd.DataFrame) -> pd.DataFrame:
    found = []
    for row in ROWS:
        own = frame[frame["name"] == row]
        if not len(own):
            continue
        cells = {"row": f"`{row}`", "seeds": str(len(own))}
        for measure, heading in MEASURES.items():
            cells[heading] = spread_text(own[measure].tolist(), digits=3 if measure == "test_loss" else 2)
            less = None if row == JOINT else difference(frame, JOINT, row, measure)
            cells[f"joint minus row, {heading}"] = _text(less, 3 if measure == "test_loss" else 2)
        found.append(cells)
    return pd.DataFrame(found)


def _text(found: PairedDifference | None, digits: int) -> str:
    if found is None:
        return ""
    if found.interval is None:
        return f"{found.mean:+.{digits}f}"
    low, high = found.interval
    return f"{found.mean:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})"
