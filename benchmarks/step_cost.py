"""How far is a step of each search algorithm from its own floor?

    python benchmarks/step_cost.py run [--model wrn-10-1] [--image-size 32] [--batch-size 128] [--rounds 5]
    python benchmarks/step_cost.py page

The floor of an algorithm is the passes through the network that it cannot do without, as steps/floors.py counts them,
bare: no augmentation, no hyper-layers. `run` times training steps of each with their share of the lambda steps, and of
its floor, in turns and in one process, so that what else the machine does hits both; images are noise. The results are
kept in benchmarks/results/steps.jsonl. `page` writes the table of docs/speed.md. Run it on an idle machine.
"""

from pathlib import Path
from typing import Any

import click
import torch
from common.pages import fill_page
from common.records import DOCS, Record, Run, made_by, newest_of_each_size, store_of
from common.settings import kept_settings
from common.timing import search_seconds_per_step
from quality.options import DEVICE, KEPT_IN
from steps.floors import FLOORS, bare_seconds_per_step
from steps.page import MARK, table_of

from hba.data import LabelledImages, SearchData
from hba.policy_search.config import SearchConfig
from hba.utils.devices import find_device

QUESTION = "steps"
BATCHES = 4
N_CLASSES = 10
LEARNING_RATE = 0.01
"""Noise makes all algorithms diverge at higher ones."""


@click.group(help=__doc__)
def main() -> None:
    """Commands."""


@main.command(help="Time steps and their floors.")
@click.option("--model", default="wrn-10-1", show_default=True)
@click.option("--image-size", type=click.IntRange(8), default=32, show_default=True)
@click.option("--batch-size", type=click.IntRange(2), default=128, show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--steps", type=click.IntRange(4), default=20, show_default=True, help="Of a round, timed or not.")
@DEVICE
@KEPT_IN
def run(model: str, image_size: int, batch_size: int, rounds: int, steps: int, device: str, results: Path) -> None:
    torch.set_num_threads(1)
    data = noise_data(image_size, batch_size)
    shared = {"data": "noise", "model": model, "image_size": image_size, "batch_size": batch_size, "device": device}
    shared |= {"learning_rate": LEARNING_RATE}
    configs = {name: SearchConfig.make({**shared, **floor.settings}).resolved() for name, floor in FLOORS.items()}
    found: dict[str, dict[str, list[float]]] = {"seconds_per_step": {}, "floor_seconds_per_step": {}}
    for number in range(1, rounds + 1):
        ratios = []
        for name, config in configs.items():
            seconds = search_seconds_per_step(config, data, steps)
            bare = bare_seconds_per_step(FLOORS[name], config, data, steps)
            for kind, one in zip(found.values(), (seconds, bare), strict=True):
                kind.setdefault(name, []).append(one)
            ratios.append(f"{name} {seconds / bare:.2f}")
        click.echo(f"round {number} of {rounds}: {', '.join(ratios)}")
    settings: dict[str, Any] = {name: kept_settings(config) for name, config in configs.items()}
    asked = Run(QUESTION, "noise", {**shared, "algorithms": settings}, seed=0)
    store_of(results, QUESTION).add(Record(asked, found, made_by(find_device(device))))


def noise_data(image_size: int, batch_size: int, batches: int = BATCHES) -> SearchData:
    """What images show does not matter to the time that they take. batches: of an epoch."""

    def images(n_images: int, seed: int) -> LabelledImages:
        shape, generator = (n_images, 3, image_size, image_size), torch.Generator().manual_seed(seed)
        pixels = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
        return LabelledImages(pixels, torch.arange(n_images) % N_CLASSES)

    names = tuple(map(str, range(N_CLASSES)))
    return SearchData("noise", names, images(batches * batch_size, 0), images(batches * batch_size, 1))


@main.command(help="Write the table of docs/speed.md.")
@KEPT_IN
def page(results: Path) -> None:
    fill_page("speed", MARK, DOCS, table_of(newest_of_each_size(results, QUESTION)))


if __name__ == "__main__":
    main()
