"""Images per second of one policy call, beside torchvision, kornia and albumentations on the same images.

    python benchmarks/policy_throughput.py [--rounds 7] [--seconds 2] [--per-operation] [--json FILE]

One CPU thread, batches of 128 images of 3x32x32 and of 32 images of 3x224x224, two operations on each image. All rows
take turns in every round. The defaults take about four minutes, --per-operation seven more. With albumentations, which
is not a dependency of hba, there is a row for it. Where there is a CUDA GPU, another table has milliseconds per call on
128 images of 3x32x32, beside one training step of a WRN-40-2.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import functools
import json
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np
import torch
import torch.nn.functional as F
from operations_vs_pil import photograph_pieces
from rich.console import Console
from rich.table import Table
from throughput_peers import (
    NOTES,
    SEED,
    Call,
    Peer,
    all_peers,
    call_on_floats,
    find_albumentations,
    kornia_rand_augment,
    one_operation,
    two_operations,
)
from torch import Tensor

from hba import OPERATIONS, Policy
from hba.models import build_model

BATCH_SIZES = {32: 128, 224: 32}
"""Height and width in pixels to images in a batch."""

GPU_SIDE = 32
TRAINING_STEP = "WRN-40-2 training step"
PACKAGES = ("hba-augment", "torch", "torchvision", "kornia", "albumentations", "pillow", "numpy")

Key = TypeVar("Key")


def seconds_per_call(call: Call, seconds: float) -> float:
    """Wall-clock seconds, over calls that take at least `seconds` together."""
    n_calls, elapsed, start = 0, 0.0, time.perf_counter()
    while elapsed < seconds or n_calls == 0:
        call()
        n_calls += 1
        elapsed = time.perf_counter() - start
    return elapsed / n_calls


def in_turns(calls: Mapping[Key, Call], rounds: int, measure: Callable[[Call], float]) -> dict[Key, list[float]]:
    """One measurement of each call per round, so that drift of the machine hits all alike; a first call warms up."""
    for call in calls.values():
        call()
    times: dict[Key, list[float]] = {key: [] for key in calls}
    for _ in range(rounds):
        for key, call in calls.items():
            times[key].append(measure(call))
    return times


def spread(values: Sequence[float]) -> dict[str, Any]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "rounds": list(values)}


def written(values: Mapping[str, Any], form: str) -> str:
    """median (smallest-largest)"""
    return f"{values['median']:{form}} ({values['min']:{form}}-{values['max']:{form}})"


def measure_peers(
    peers: Sequence[Peer], batches: Mapping[int, Tensor], rounds: int, seconds: float
) -> list[dict[str, Any]]:
    """One entry per peer: images per second by side, None for what is not installed, and how often hba does one."""
    calls = {
        (index, side): peer.prepare(images)
        for side, images in batches.items()
        for index, peer in enumerate(peers)
        if peer.prepare is not None
    }
    times = in_turns(calls, rounds, functools.partial(seconds_per_call, seconds=seconds))
    rates = {key: spread([len(batches[key[1]]) / value for value in values]) for key, values in times.items()}
    return [
        {
            "peer": peer.name,
            "input": peer.takes,
            "operations": peer.operations,
            "images_per_second": {side: rates.get((index, side)) for side in batches},
            "hba_over_peer": {
                side: rates[0, side]["median"] / rates[index, side]["median"] if (index, side) in rates else None
                for side in batches
            },
        }
        for index, peer in enumerate(peers)
    ]


def peer_table(results: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title="Images per second of one policy call, one CPU thread")
    for heading in ("", "input", "operations"):
        table.add_column(heading)
    for side, batch_size in BATCH_SIZES.items():
        table.add_column(f"{batch_size} of {side}x{side}", justify="right")
    for side in BATCH_SIZES:
        table.add_column(f"hba/peer\n{side}x{side}", justify="right")
    for result in results:
        rates, ratios = result["images_per_second"], result["hba_over_peer"]
        table.add_row(
            result["peer"],
            result["input"],
            result["operations"],
            *("not installed" if rates[side] is None else written(rates[side], ",.0f") for side in BATCH_SIZES),
            *("" if ratios[side] is None else f"{ratios[side]:.2f}" for side in BATCH_SIZES),
        )
    return table


def measure_operations(batches: Mapping[int, Tensor], rounds: int, seconds: float) -> dict[str, dict[int, Any]]:
    """Seconds per call of a policy that has one operation, and applies it to every image; by name and side."""
    calls = {
        (name, side): call_on_floats(one_operation(operation, len(images)), images)
        for side, images in batches.items()
        for name, operation in OPERATIONS.items()
    }
    times = in_turns(calls, rounds, functools.partial(seconds_per_call, seconds=seconds))
    return {name: {side: spread(times[name, side]) for side in batches} for name in OPERATIONS}


def operation_table(results: Mapping[str, Mapping[int, Any]], batches: Mapping[int, Tensor]) -> Table:
    table = Table(title="A policy of one hba operation on every image, its draw included; one CPU thread")
    table.add_column("operation")
    for side, images in batches.items():
        table.add_column(f"µs / image, {len(images)} of {side}x{side}", justify="right")
        table.add_column("ns / value", justify="right")
    for name, by_side in results.items():
        cells = []
        for side, images in batches.items():
            values = {key: by_side[side][key] * 1e6 / len(images) for key in ("median", "min", "max")}
            cells += [written(values, ",.1f"), f"{by_side[side]['median'] * 1e9 / images.numel():.2f}"]
        table.add_row(name, *cells)
    return table


def captured(policy: Policy, batch: Tensor) -> torch.cuda.CUDAGraph:
    """One call of the policy as a CUDA graph; every replay draws anew."""
    generator = torch.Generator(batch.device).manual_seed(SEED)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    # Constants travel to the device in a first call, which cannot be captured.
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            policy(batch, generator)
    torch.cuda.current_stream().wait_stream(stream)
    with torch.cuda.graph(graph):
        policy(batch, generator)
    return graph


def training_step(batch: Tensor) -> Call:
    """Forward, backward and SGD with Nesterov momentum, float32, as PyTorch does them by default."""
    network = build_model("wrn-40-2", 10, seed=SEED).to(batch.device).train()
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9, nesterov=True, weight_decay=5e-4)
    labels = torch.arange(len(batch), device=batch.device) % 10

    def step() -> None:
        loss = F.cross_entropy(network(batch), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def gpu_seconds_per_call(call: Call, seconds: float) -> float:
    """Seconds between CUDA events around about `seconds` of calls; the host waits before and after, never between."""

    def finished_call() -> None:
        call()
        torch.cuda.synchronize()

    torch.cuda.synchronize()
    estimate = seconds_per_call(finished_call, seconds / 10)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    n_calls = max(1, round(seconds / estimate))
    start.record()
    for _ in range(n_calls):
        call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1e3 / n_calls


def measure_gpu(images: Tensor, rounds: int, seconds: float) -> dict[str, Any]:
    """Seconds per call on the GPU by name, the training step last."""
    device = torch.device("cuda")
    batch = images.to(device).float() / 255
    policy = two_operations(len(images)).to(device)
    generator = torch.Generator(device).manual_seed(SEED)
    calls: dict[str, Call] = {
        "hba, eager": functools.partial(policy, batch, generator),
        "hba, CUDA graph": captured(policy, batch).replay,
        "kornia RandAugment, one draw a batch": functools.partial(kornia_rand_augment(), batch),
        TRAINING_STEP: training_step(batch),
    }
    times = in_turns(calls, rounds, functools.partial(gpu_seconds_per_call, seconds=seconds))
    return {name: spread(values) for name, values in times.items()}


def gpu_table(results: Mapping[str, Any]) -> Table:
    table = Table(title=f"{torch.cuda.get_device_name()}: one call on {BATCH_SIZES[GPU_SIDE]} images of 3x32x32")
    for heading in ("", "ms", "of a training step"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, values in results.items():
        share = values["median"] / results[TRAINING_STEP]["median"]
        milliseconds = {key: values[key] * 1e3 for key in ("median", "min", "max")}
        table.add_row(name, written(milliseconds, ".3f"), f"{100 * share:.1f} %")
    return table


def cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def environment() -> dict[str, Any]:
    """Hardware by name, and the versions of what computes; None for what is not there."""
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    versions["torch"] = torch.__version__  # With the CUDA version that it is built for.
    found = find_albumentations()
    versions["opencv"] = None if found is None else found[1].__version__
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {"cpu": cpu_model(), "gpu": gpu, "n_threads": torch.get_num_threads(), "versions": versions}


@click.command()
@click.option("--rounds", type=click.IntRange(min=1), default=7, show_default=True)
@click.option("--seconds", type=click.FloatRange(min=0), default=2.0, show_default=True, help="Of each measurement.")
@click.option("--per-operation", is_flag=True, help="Also time each of hba's operations alone.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write all figures here.")
def main(rounds: int, seconds: float, per_operation: bool, json_file: Path | None) -> None:
    """Images per second of one policy call on one CPU thread, beside other libraries."""
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    console = Console(width=130)
    rng = np.random.default_rng(SEED)
    batches = {side: photograph_pieces(side, batch_size, rng) for side, batch_size in BATCH_SIZES.items()}
    setting = {"rounds": rounds, "seconds_per_measurement": seconds, "batch_sizes": BATCH_SIZES}
    content: dict[str, Any] = {**environment(), **setting}
    if torch.cuda.is_available():
        content["gpu_seconds_per_call"] = measure_gpu(batches[GPU_SIDE], rounds, seconds)
        console.print(gpu_table(content["gpu_seconds_per_call"]))
    content["peers"] = measure_peers(all_peers(), batches, rounds, seconds)
    console.print(peer_table(content["peers"]))
    for note in NOTES:
        console.print(f"- {note}", highlight=False)
    if per_operation:
        content["operations_seconds_per_call"] = measure_operations(batches, rounds, seconds)
        console.print(operation_table(content["operations_seconds_per_call"], batches))
    versions = ", ".join(f"{package} {number}" for package, number in content["versions"].items())
    console.print(f"{content['cpu']}; {rounds} rounds of {seconds:g} s; {versions}", highlight=False)
    if json_file is not None:
        json_file.write_text(json.dumps({**content, "notes": NOTES}, indent=2) + "\n")


if __name__ == "__main__":
    main()
