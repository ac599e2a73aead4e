"""How much faster are a training and a search in bfloat16?

    python benchmarks/fast.py run [--sizes wrn-10-1:16,wrn-16-2:32,resnet-18:32] [--batch-size 100] [--rounds 5]
    python benchmarks/fast.py page

`run` times training steps of an evaluation without a schedule, and of the default search with their share of the lambda
steps, with and without `fast`, in turns and in one process with one thread; images are noise. The results are kept in
benchmarks/results/fast.jsonl. `page` writes the table of docs/speed.md. Run it on an idle machine. Whether a schedule
that is searched so is as good, `search_quality.py retrain` asks of the candidate `from-randaugment-bfloat16`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import pandas as pd
import torch
from common.pages import fill_page
from common.records import DOCS, Record, Run, made_by, newest_of_each_size, store_of
from common.tables import markdown, origin_of_steps, spread_text
from common.timing import search_seconds_per_step, training_seconds_per_step
from quality.options import DEVICE, KEPT_IN
from step_cost import LEARNING_RATE, noise_data

from hba.config.evaluation import EvaluationConfig
from hba.data import EvaluationData
from hba.policy_search.config import SearchConfig
from hba.utils.devices import find_device

QUESTION, MARK = "fast", "fast"
SIZES = "wrn-10-1:16,wrn-16-2:32,resnet-18:32"
KINDS: Mapping[str, str] = {"training": "a training", "search": "a search, with its lambda steps"}


@click.group(help=__doc__)
def main() -> None:
    """Commands."""


@main.command(help="Time steps with and without it.")
@click.option("--sizes", default=SIZES, show_default=True, help="Networks and sides in pixels, by commas.")
@click.option("--batch-size", type=click.IntRange(2), default=100, show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--steps", type=click.IntRange(4), default=20, show_default=True, help="Of a round, timed or not.")
@DEVICE
@KEPT_IN
def run(sizes: str, batch_size: int, rounds: int, steps: int, device: str, results: Path) -> None:
    torch.set_num_threads(1)
    for size in sizes.split(","):
        model, _, side = size.partition(":")
        shared = {"model": model, "image_size": int(side), "batch_size": batch_size, "device": device}
        timed = _timed({**shared, "data": "noise", "learning_rate": LEARNING_RATE}, steps)
        found: dict[str, list[float]] = {name: [] for name in timed}
        for _ in range(rounds):
            for name, seconds in timed.items():
                found[name].append(seconds())
        asked = Run(QUESTION, "noise", {**shared, "steps": steps, "rounds": rounds}, seed=0)
        store_of(results, QUESTION).add(Record(asked, found, made_by(find_device(device))))
        click.echo(f"{size}: {', '.join(f'{name} {spread_text(one, 4)}' for name, one in found.items())}")


def _timed(settings: Mapping[str, Any], steps: int) -> Mapping[str, Callable[[], float]]:
    """Seconds of a step, by the kind of step and whether it is fast."""
    data = noise_data(settings["image_size"], settings["batch_size"])
    trained = EvaluationData("noise", data.class_names, data.train, data.val)
    found: dict[str, Callable[[], float]] = {}
    for fast in (False, True):
        search = SearchConfig.make({**settings, "fast": fast}).resolved()
        evaluation = EvaluationConfig.make({**settings, "fast": fast})
        found[name_of("search", fast)] = partial(search_seconds_per_step, search, data, steps)
        found[name_of("training", fast)] = partial(training_seconds_per_step, evaluation, trained, steps)
    return found


def name_of(kind: str, fast: bool) -> str:
    return f"{kind}, fast" if fast else kind


@main.command(help="Write the table of docs/speed.md.")
@KEPT_IN
def page(results: Path) -> None:
    fill_page("speed", MARK, DOCS, table_of(newest_of_each_size(results, QUESTION)))


def table_of(records: Sequence[Record]) -> str:
    """Markdown: seconds of a step without and with `fast`, and how many times faster it is, within a round."""
    if not records:
        return "Nothing was run."
    lines = [
        {
            "network": f"{record.run.settings['model']}, {record.run.settings['image_size']} pixels",
            "step of": text,
            "seconds": spread_text(plain, 4),
            "seconds with `--fast`": spread_text(fast, 4),
            "times as fast": spread_text([one / other for one, other in zip(plain, fast, strict=True)]),
            "rounds": str(len(plain)),
        }
        for record in records
        for kind, text in KINDS.items()
        for plain, fast in [[record.results[name_of(kind, is_fast)] for is_fast in (False, True)]]
    ]
    return f"{origin_of_steps(records)}\n\n{markdown(pd.DataFrame(lines))}"


if __name__ == "__main__":
    main()
