"""What a training step of a search costs, with its share of the lambda steps, by candidate."""

from collections.abc import Callable, Sequence

import pandas as pd
from common.records import Record, Run, made_by
from common.tables import spread_text
from common.tasks import FLOOR, seconds_in_turns

from hba.utils.devices import find_device
from quality.beds import Bed
from quality.candidates import PAPER

STEPS = 60


def measured_cost(bed: Bed, names: Sequence[str], rounds: int, device: str, say: Callable[[str], None]) -> Record:
    """Seconds per step of each candidate and of the paper's floor, in turns, so that what else the machine does hits
    all.
    """
    searches = [
        bed.search(name, 0, device=device)
        for name in dict.fromkeys((PAPER, *names))
    ]  # fmt: skip
    found = []
    for number in range(rounds):
        found.append(seconds_in_turns(searches, searches[0], STEPS))
        now = ", ".join(f"{name} {seconds:.4f}" for name, seconds in found[-1].items())
        say(f"round {number + 1} of {rounds}: {now}")
    seconds = {name: [one[name] for one in found] for name in found[0]}
    run = Run("cost", bed.name, {}, seed=0, further=searches[0].further)
    return Record(run, {"seconds_per_step": seconds}, made_by(find_device(device)))


def cost_table(record: Record) -> pd.DataFrame:
    """A row for each candidate; ratios are within a round, mean ± standard deviation over rounds."""
    seconds = pd.DataFrame(record.results["seconds_per_step"])
    return pd.DataFrame(
        {
            "candidate": name,
            "seconds per step": f"{seconds[name].mean():.4f}",
            f"times `{PAPER}`": spread_text(seconds[name] / seconds[PAPER]),
            f"times the {FLOOR}": spread_text(seconds[name] / seconds[FLOOR]),
        }
        for name in seconds
    )
