"""What a training step of a search costs, with its share of the lambda steps, by candidate."""

import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from reproduction.timing import floor_seconds_per_step, search_seconds_per_step

from hba.runtime.devices import find_device
from hba.runtime.files import write_text
from quality.beds import IMAGES, Bed
from quality.candidates import PAPER
from quality.records import made_by

STEPS = 60
FLOOR = "floor"
"""Plain training without augmentation, and a forward pass on a validation batch as often as the paper's search has one:
after every second step.
"""

COST_HEADINGS = ("candidate", "seconds per step", f"times `{PAPER}`", f"times the {FLOOR}")


def measure_cost(bed: Bed, names: Sequence[str], rounds: int, device: str, say: Callable[[str], None]) -> Any:
    """Seconds per step of each candidate and of the floor, in turns, so that what else the machine does hits all."""
    paper = bed.config(PAPER, 0, device=device)
    data = IMAGES.of_search(paper, None)
    configs = {name: bed.config(name, 0, device=device) for name in (PAPER, *names)}
    seconds: dict[str, list[float]] = {name: [] for name in (*configs, FLOOR)}
    for number in range(rounds):
        for name, config in configs.items():
            seconds[name].append(search_seconds_per_step(config, data, STEPS))
        seconds[FLOOR].append(floor_seconds_per_step(paper, data, STEPS))
        say(
            f"round {number + 1} of {rounds}: "
            + ", ".join(f"{name} {times[-1]:.4f}" for name, times in seconds.items())
        )
    return {"dataset": bed.place.label, "seconds_per_step": seconds, **made_by(find_device(device))}


def keep_cost(measured: Any, results: Path) -> None:
    write_text(cost_path(results, measured["dataset"]), json.dumps(measured, indent=1) + "\n")


def cost_path(results: Path, dataset: str) -> Path:
    return results / dataset / "cost.json"


def cost_rows(measured: Any) -> list[list[str]]:
    """One row for each candidate; ratios are within a round, mean ± standard deviation over rounds."""
    seconds = measured["seconds_per_step"]
    return [
        [name, f"{statistics.mean(times):.4f}", _ratio(times, seconds[PAPER]), _ratio(times, seconds[FLOOR])]
        for name, times in seconds.items()
    ]


def _ratio(times: Sequence[float], to: Sequence[float]) -> str:
    ratios = [time / other for time, other in zip(times, to, strict=True)]
    return f"{statistics.mean(ratios):.2f} ± {statistics.stdev(ratios):.2f}"
