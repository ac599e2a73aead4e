"""What would a compiler of PyTorch programs add to `--fast`?

    python benchmarks/compiled.py run [--sizes wrn-10-1:16,wrn-16-2:32,resnet-18:32] [--batch-size 100] [--rounds 5]
    python benchmarks/compiled.py page

`run` times bare training steps in bfloat16, with channels last and a fused step of SGD, of a network as it is, of one
that `torch.compile` has compiled, and on a GPU of one that CUDA graphs play back, in turns and in one process with one
thread; images are noise. None has augmentation or lambda steps: it is the most that a compiled network can save a
training. What the first steps take longer by, while the compiler is at work, stands beside it. The results are kept in
benchmarks/results/compiled.jsonl. `page` writes the table of docs/speed.md. Run it on an idle machine; a CPU needs
a C++ compiler.
"""

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import click
import pandas as pd
import torch
import torch.nn.functional as F
from common.pages import fill_page
from common.records import DOCS, Record, Run, made_by, newest_of_each_size, store_of
from common.tables import NOTHING, markdown, origin_of_steps, spread_text
from quality.options import DEVICE, KEPT_IN
from step_cost import LEARNING_RATE, N_CLASSES
from torch import nn

from hba.models import build_model
from hba.utils.devices import find_device

QUESTION, MARK = "compiled", "compiled"
SIZES = "wrn-10-1:16,wrn-16-2:32,resnet-18:32"
FIRST_STEPS = 3
"""Of a network, in which it is compiled and memory is found."""
PLAIN = "as it is"
MODES: Mapping[str, str | None] = MappingProxyType(
    {PLAIN: None, "compiled": "default", "compiled, in CUDA graphs": "reduce-overhead"}
)
"""By what is timed, torch.compile's mode; the last is for GPUs."""

Step = Callable[[], None]


@click.group(help=__doc__)
def main() -> None:
    """Commands."""


@main.command(help="Time bare steps of networks as they are, and compiled.")
@click.option("--sizes", default=SIZES, show_default=True, help="Networks and sides in pixels, by commas.")
@click.option("--batch-size", type=click.IntRange(2), default=100, show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--steps", type=click.IntRange(1), default=20, show_default=True, help="Of a round, all timed.")
@DEVICE
@KEPT_IN
def run(sizes: str, batch_size: int, rounds: int, steps: int, device: str, results: Path) -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as cache:
        # What was compiled before would be found again.
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        time_all(sizes, batch_size, rounds, steps, device, results)


def time_all(sizes: str, batch_size: int, rounds: int, steps: int, device: str, results: Path) -> None:
    place = find_device(device)
    modes = {name: mode for name, mode in MODES.items() if place.type == "cuda" or mode != "reduce-overhead"}
    for size in sizes.split(","):
        model, _, side = size.partition(":")
        found: dict[str, list[float]] = {name: [] for name in modes}
        made = {name: bare_step(model, int(side), batch_size, place, mode) for name, mode in modes.items()}
        first = {name: seconds_of(step, FIRST_STEPS, place) for name, step in made.items()}
        for _ in range(rounds):
            for name, step in made.items():
                found[name].append(seconds_of(step, steps, place) / steps)
        shared = {"model": model, "image_size": int(side), "batch_size": batch_size, "device": device}
        asked = Run(QUESTION, "noise", {**shared, "steps": steps, "rounds": rounds}, seed=0)
        longer = {name: seconds - first[PLAIN] for name, seconds in first.items() if name != PLAIN}
        kept = {"seconds_per_step": found, "seconds_to_compile": longer}
        store_of(results, QUESTION).add(Record(asked, kept, made_by(place)))
        click.echo(f"{size}: {', '.join(f'{name} {spread_text(one, 4)}' for name, one in found.items())}")


def bare_step(model: str, side: int, batch_size: int, place: torch.device, mode: str | None) -> Step:
    """One step of SGD on the same noise each time, with the settings that `fast` has. mode: None compiles nothing."""
    network: nn.Module = build_model(model, N_CLASSES, 0, side).to(place).to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(network.parameters(), LEARNING_RATE, momentum=0.9, nesterov=True, fused=True)
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(batch_size, 3, side, side, generator=generator).to(place, memory_format=torch.channels_last)
    labels = (torch.arange(batch_size) % N_CLASSES).to(place)
    called: Callable[..., torch.Tensor] = network if mode is None else torch.compile(network, mode=mode, dynamic=False)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(place.type, torch.bfloat16):
            outputs = called(images)
        F.cross_entropy(outputs.float(), labels).backward()
        optimizer.step()

    return step


def seconds_of(step: Step, n_steps: int, place: torch.device) -> float:
    """Of so many steps."""
    begun = time.perf_counter()
    for _ in range(n_steps):
        step()
    if place.type == "cuda":
        torch.cuda.synchronize(place)
    return time.perf_counter() - begun


@main.command(help="Write the table of docs/speed.md.")
@KEPT_IN
def page(results: Path) -> None:
    fill_page("speed", MARK, DOCS, table_of(newest_of_each_size(results, QUESTION)))


def table_of(records: Sequence[Record]) -> str:
    """Markdown: seconds of a bare step by mode, and how many times as fast as without, within a round."""
    if not records:
        return "Nothing was run."
    lines = [
        {
            "network": f"{record.run.settings['model']}, {record.run.settings['image_size']} pixels",
            "step": name,
            "seconds": spread_text(seconds, 4),
            "times as fast": NOTHING if name == PLAIN else spread_text(ratios(record, name)),
            "seconds to compile": NOTHING if name == PLAIN else f"{record.results['seconds_to_compile'][name]:.0f}",
            "rounds": str(len(seconds)),
        }
        for record in records
        for name, seconds in record.results["seconds_per_step"].items()
    ]
    return f"{origin_of_steps(records)}\n\n{markdown(pd.DataFrame(lines))}"


def ratios(record: Record, name: str) -> list[float]:
    seconds = record.results["seconds_per_step"]
    return [one / other for one, other in zip(seconds[PLAIN], seconds[name], strict=True)]


if __name__ == "__main__":
    main()
