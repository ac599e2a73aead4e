"""How much memory does a step of each search algorithm take, beside a step of an ordinary training?

    python benchmarks/memory.py run [--sizes wrn-10-1:16,wrn-16-2:32,resnet-18:32] [--batch-size 100]
    python benchmarks/memory.py page

`run` keeps, for each, the most bytes that tensors held at any time from the start to the last of some steps: weights,
gradients, the optimizer's state, and what passes leave for each other; images are noise. What an epoch ends with, the
measuring of whole splits, is left out: searches and trainings do it alike. On a CPU, PyTorch's profiler sees every
tensor that comes and goes, so the numbers are the same in every run. They are kept in benchmarks/results/memory.jsonl.
`page` writes the table of docs/speed.md.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import pandas as pd
import torch
from common.pages import fill_page
from common.records import DOCS, Record, Run, made_by, newest_of_each_size, store_of
from common.settings import without_data
from common.tables import markdown, origin_of_steps
from quality.options import DEVICE, KEPT_IN
from step_cost import LEARNING_RATE, noise_data
from steps.floors import FLOORS
from torch.profiler import ProfilerActivity, profile, record_function

import hba
from hba.config.evaluation import EvaluationConfig
from hba.data import EvaluationData, SearchData
from hba.policy_search.config import SearchConfig
from hba.training.augmentation import Unchanged
from hba.training.train import train
from hba.utils.devices import find_device

QUESTION = MARK = "memory"
SIZES = "wrn-10-1:16,wrn-16-2:32,resnet-18:32"
STEPS = 12
"""Of each; every algorithm takes two lambda steps in them, or more."""
PLAIN = "a training"
AFTER_STEPS = "hba: after the last step"


@click.group(help=__doc__)
def main() -> None:
    """Commands."""


@main.command(help="Measure the memory of steps.")
@click.option("--sizes", default=SIZES, show_default=True, help="Networks and sides in pixels, by commas.")
@click.option("--batch-size", type=click.IntRange(2), default=100, show_default=True)
@DEVICE
@KEPT_IN
def run(sizes: str, batch_size: int, device: str, results: Path) -> None:
    torch.set_num_threads(1)
    for size in sizes.split(","):
        model, _, side = size.partition(":")
        shared = {"model": model, "image_size": int(side), "batch_size": batch_size, "device": device}
        calls = _calls({**shared, "data": "noise", "learning_rate": LEARNING_RATE})
        found = {name: peak_bytes(call, find_device(device)) for name, call in calls.items()}
        asked = Run(QUESTION, "noise", {**shared, "steps": STEPS}, seed=0)
        store_of(results, QUESTION).add(Record(asked, found, made_by(find_device(device))))
        ratios = (f"{name} {count / found[PLAIN]:.2f}" for name, count in found.items() if name != PLAIN)
        click.echo(f"{size}: {found[PLAIN] / 1e6:.1f} MB; {', '.join(ratios)}")


def _calls(settings: Mapping[str, Any]) -> dict[str, Callable[[], None]]:
    """Some steps of each, by name."""
    data = noise_data(settings["image_size"], settings["batch_size"], batches=2 * STEPS)
    of_training = {name: value for name, value in settings.items() if name != "data"}
    evaluation = EvaluationConfig.make(of_training)
    calls: dict[str, Callable[[], None]] = {PLAIN: partial(train_some, evaluation, data)}
    for name, floor in FLOORS.items():
        config = SearchConfig.make({**settings, **floor.settings}).resolved()
        calls[name] = partial(search_some, config, data)
    return calls


def train_some(config: EvaluationConfig, data: SearchData) -> None:
    """Steps of an ordinary training, without a schedule."""
    whole, counted = EvaluationData(data.name, data.class_names, data.train, data.val), _counted()

    def count() -> None:
        next(counted)

    with contextlib.suppress(StopIteration):
        train(config, whole.to(find_device(config.device)), Unchanged(), 0, count)


def search_some(config: SearchConfig, data: SearchData) -> None:
    class Some(hba.SearchCallback):
        def __init__(self) -> None:
            self.counted, self.is_over = _counted(), False

        def step_done(self, step: int) -> None:
            self.is_over = next(self.counted, None) is None

        def stop_requested(self) -> bool:
            return self.is_over

    hba.search(data, callback=Some(), **without_data(config))


def _counted() -> Iterator[int]:
    """A number for each step but the last, which is marked for the profiler."""
    yield from range(1, STEPS)
    with record_function(AFTER_STEPS):
        if torch.cuda.is_available():
            torch.cuda.synchronize()


def peak_bytes(call: Callable[[], None], device: torch.device) -> int:
    """The most that tensors held at a time, from the call's begin to its mark; without what was there before."""
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        call()
        return torch.cuda.max_memory_allocated(device) - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    events = sorted(profiler.profiler.kineto_results.events(), key=lambda event: event.start_ns())
    held = most = 0
    for event in events:
        if event.name() == AFTER_STEPS:
            break
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most


@main.command(help="Write the table of docs/speed.md.")
@KEPT_IN
def page(results: Path) -> None:
    fill_page("speed", MARK, DOCS, table_of(newest_of_each_size(results, QUESTION)))


def table_of(records: Sequence[Record]) -> str:
    """Markdown: megabytes of a training, and for each algorithm the ratio to it; a row for each size."""
    if not records:
        return "Nothing was run."
    rows = []
    for record in records:
        settings, plain = record.run.settings, record.results[PLAIN]
        row = {"network": f"{settings['model']}, {settings['image_size']} pixels", PLAIN: f"{plain / 1e6:.1f} MB"}
        rows.append(row | {f"`{name}`": f"{record.results[name] / plain:.2f}" for name in FLOORS})
    return f"{origin_of_steps(records)}\n\n{markdown(pd.DataFrame(rows))}"


if __name__ == "__main__":
    main()
