"""The table of language models in docs/language-models.md, from what is kept."""

import math
import statistics
from collections.abc import Mapping, Sequence

import pandas as pd
from common.records import Record
from common.tables import markdown

from hba.policy_evaluation.paired import PairedDifference
from language_models.tasks import FINAL, FIXED, REPLAY

MARK = "language models"
ROWS = {
    "stn": "STN's own network",
    f"stn-{REPLAY}": "its schedule, in an ordinary training",
    f"stn-{FINAL}": "its last row, fixed",
    "delta-stn": "Delta-STN's own network",
    f"delta-stn-{REPLAY}": "its schedule, in an ordinary training",
    f"delta-stn-{FINAL}": "its last row, fixed",
    FIXED: "all dropouts at the one of {rates} that is best on the validation text",
}
MEASURES = {"val_loss": "validation perplexity", "test_loss": "test perplexity"}
Losses = Mapping[str, Mapping[int, Mapping[str, float]]]
"""By row, seed and measure."""


def losses_of(records: Sequence[Record]) -> Losses:
    """Of each row; of the fixed rates, each seed's best on the validation text."""
    found: dict[str, dict[int, Mapping[str, float]]] = {}
    for record in records:
        rows = found.setdefault(record.run.name, {})
        before = rows.get(record.run.seed)
        if before is None or record.results["val_loss"] < before["val_loss"]:
            rows[record.run.seed] = record.results
    return found


def table_of(records: Sequence[Record]) -> str:
    """Markdown: perplexities of each row, and the test loss that it has more than the best fixed rate."""
    found = losses_of(records)
    rates = sorted({record.run.further["rate"] for record in records if record.run.name == FIXED})
    lines = []
    for row, text in ROWS.items():
        if row not in found:
            continue
        own = found[row]
        cells = {"row": f"`{row}`: {text.format(rates=', '.join(map(str, rates)))}", "seeds": str(len(own))}
        cells |= {heading: _perplexity([one[name] for one in own.values()]) for name, heading in MEASURES.items()}
        cells["test loss minus that of `fixed`, nats a word"] = "" if row == FIXED else _difference(found, row)
        lines.append(cells)
    return markdown(pd.DataFrame(lines)) if lines else "Nothing was run."


def _perplexity(losses: Sequence[float]) -> str:
    found = [math.exp(loss) for loss in losses]
    return f"{statistics.fmean(found):.1f}" + (f" ± {statistics.stdev(found):.1f}" if len(found) > 1 else "")


def _difference(found: Losses, row: str) -> str:
    own, fixed = ({seed: one["test_loss"] for seed, one in found.get(name, {}).items()} for name in (row, FIXED))
    less = PairedDifference.of(own, fixed)
    if less is None:
        return ""
    interval = "" if less.interval is None else f" ({less.interval[0]:+.3f} to {less.interval[1]:+.3f})"
    return f"{less.mean:+.3f}{interval}"
