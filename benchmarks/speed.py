"""Measure the speed of augmentation, and of steps of trainings and searches.

    python benchmarks/speed.py throughput [--rounds 7] [--seconds 2] [--threads 1]
    python benchmarks/speed.py operations [--rounds 5] [--seconds 0.2]
    python benchmarks/speed.py steps [--sizes wrn-10-1:16] [--batch-size 100] [--rounds
        5]
    python benchmarks/speed.py fast [--sizes wrn-10-1:16,wrn-16-2:32,resnet-18:32]
        [--batch-size 100] [--rounds 5]
    python benchmarks/speed.py masks [--sizes unet:efficientnet-lite0:128]
        [--batch-size 16] [--rounds 5]
    python benchmarks/speed.py launches
    python benchmarks/speed.py page

Run these on an otherwise idle machine. All except `throughput` use one thread, and the
images for steps are noise. `throughput` prints images per second of one policy call,
compared with torchvision, kornia and albumentations; with a CUDA GPU, it prints
milliseconds per call on the GPU instead. `operations` prints microseconds per image of
each operation outside the walk, compared with the same libraries. `steps` times a
training step of each algorithm, with its share of the lambda steps, and a step of its
floor: only the passes through the network that it cannot do without, as counted by
common/floors.py. `fast` times steps with and without bfloat16. `masks` times a
training step with masks beside loops with segmentation-models-pytorch. All three
measure in turns in one process. `launches` counts, without a GPU, the calls that launch
something on one. The last four store their results in benchmarks/results; `page` writes
their tables in docs/speed.md.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import torch
from common.options import DEVICE, KEPT_IN, OneLineErrors, with_options
from common.pages import fill_page
from common.records import DOCS, made_by, store_of
from common.tables import hardware_of
from speeds.launches import launch_table, record_of_launches
from speeds.masks import mask_table, record_of_masks
from speeds.peers import SEED
from speeds.steps import (
    fast_table,
    floor_table,
    newest_of_each_size,
    record_of_fast,
    record_of_floors,
    settings_of,
)
from speeds.throughput import NOTES, gpu_table, gpu_times, peer_table

from hba.utils.devices import find_device

TABLES = {
    "steps": floor_table,
    "fast": fast_table,
    "masks": mask_table,
    "launches": launch_table,
}
RECORDS = {
    "steps": record_of_floors,
    "fast": record_of_fast,
    "masks": record_of_masks,
}


@click.group(help=__doc__, cls=OneLineErrors)
def main() -> None:
    pass


@main.command()
@click.option("--rounds", type=click.IntRange(1), default=7, show_default=True)
@click.option(
    "--seconds",
    type=click.FloatRange(0),
    default=2.0,
    show_default=True,
    help="Of each measurement.",
)
@click.option(
    "--threads",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Of PyTorch.",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path),
    help="Write seconds per call on the GPU here.",
)
def throughput(
    rounds: int, seconds: float, threads: int, json_file: Path | None
) -> None:
    """Print images per second of one policy call, compared with other libraries."""
    torch.set_num_threads(threads)
    torch.manual_seed(SEED)
    times = gpu_times(rounds, seconds) if torch.cuda.is_available() else {}
    click.echo(
        gpu_table(times)
        if times
        else f"{peer_table(rounds, seconds)}\n\n{NOTES.read_text(encoding='utf-8')}"
    )
    machine = {**made_by(torch.device("cpu")), "n_threads": threads}
    click.echo(
        f"{hardware_of(machine)}; {rounds} rounds of {seconds:g} s;"
        f" {machine['packages']}"
    )
    if json_file is not None:
        json_file.write_text(json.dumps(times), encoding="utf-8")


@main.command()
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option(
    "--seconds",
    type=click.FloatRange(0),
    default=0.2,
    show_default=True,
    help="Of each measurement.",
)
def operations(rounds: int, seconds: float) -> None:
    """Print microseconds per image of single operations of hba and other libraries."""
    from speeds.single import operations_table

    torch.set_num_threads(1)
    table = operations_table(rounds, seconds)
    click.echo(f"{table}\n\n{hardware_of(made_by(torch.device('cpu')))}")


def with_sizes(default: str, batch_size: int = 100) -> Callable[[Any], Any]:
    return with_options(
        click.option(
            "--sizes",
            default=default,
            show_default=True,
            help="Networks and sides in pixels, by commas.",
        ),
        click.option(
            "--batch-size",
            type=click.IntRange(2),
            default=batch_size,
            show_default=True,
        ),
        click.option("--rounds", type=click.IntRange(1), default=5, show_default=True),
        click.option(
            "--steps",
            type=click.IntRange(4),
            default=20,
            show_default=True,
            help="Of a round, timed or not.",
        ),
        DEVICE,
        click.option(
            "--graph/--no-graph",
            default=True,
            help="On a GPU, run steps as CUDA graphs.",
        ),
        KEPT_IN,
    )


def time_steps(
    question: str,
    sizes: str,
    batch_size: int,
    rounds: int,
    steps: int,
    device: str,
    graph: bool,
    results: Path,
) -> None:
    torch.set_num_threads(1)
    for size in sizes.split(","):
        model, _, side = size.rpartition(":")
        shared = settings_of(model, int(side), batch_size, device, graph=graph)
        record = RECORDS[question](shared, steps, rounds, made_by(find_device(device)))
        store_of(results, question).add(record)
        click.echo(TABLES[question]([record]))


@main.command()
@with_sizes("wrn-10-1:16")
def steps(**options: Any) -> None:
    """Time steps of all algorithms and of their floors."""
    time_steps("steps", **options)


@main.command()
@with_sizes("wrn-10-1:16,wrn-16-2:32,resnet-18:32")
def fast(**options: Any) -> None:
    """Time steps with and without bfloat16."""
    time_steps("fast", **options)


@main.command()
@with_sizes("unet:efficientnet-lite0:128", batch_size=16)
def masks(**options: Any) -> None:
    """Time a training step with masks, and the same with another library."""
    time_steps("masks", **options)


@main.command()
@KEPT_IN
def launches(results: Path) -> None:
    """Count what a policy call and steps launch on a GPU."""
    record = record_of_launches(made_by(torch.device("cpu")))
    store_of(results, "launches").add(record)
    click.echo(launch_table([record]))


@main.command()
@KEPT_IN
def page(results: Path) -> None:
    """Write the tables of docs/speed.md."""
    for question, table in TABLES.items():
        fill_page(
            "speed", question, DOCS, table(newest_of_each_size(results, question))
        )


if __name__ == "__main__":
    main()
