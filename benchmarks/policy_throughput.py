"""Images per second of one policy call, beside torchvision, kornia and albumentations on the same images.

    python benchmarks/policy_throughput.py [--rounds 7] [--seconds 2] [--threads 1] [--per-operation] [--json FILE]

One CPU thread, or as many as --threads says for what is PyTorch's or hba's; batches of 128 images of 3x32x32 and of 32
images of 3x224x224, two operations on each image. All rows take turns in every round. The defaults take about four
minutes, --per-operation seven more. With albumentations, which is not a dependency of hba, there is a row for it. Where
there is a CUDA GPU, another table has milliseconds per call on 128 images of 3x32x32, beside one training step of a
WRN-40-2.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import contextlib
import functools
import json
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
from throughput_peers import SEED, Call, all_peers, call_on_floats, kornia_rand_augment, one_operation, two_operations
from torch import Tensor

from hba import OPERATIONS, Policy
from hba.models import build_model
from hba.policy.spaces import as_markdown
from hba.utils.provenance import environment

BATCH_SIZES = {32: 128, 224: 32}
"""Height and width in pixels to images in a batch."""
GPU_SIDE = 32
TRAINING_STEP = "WRN-40-2 training step"
NOTES = Path(__file__).with_name("throughput_notes.md")

Key = TypeVar("Key")
Rounds = Sequence[float]
"""One measurement of each round."""


def seconds_per_call(call: Call, seconds: float) -> float:
    """Wall-clock seconds, over calls that take at least `seconds` together."""
    n_calls, elapsed, start = 0, 0.0, time.perf_counter()
    while elapsed < seconds or n_calls == 0:
        call()
        n_calls += 1
        elapsed = time.perf_counter() - start
    return elapsed / n_calls


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


def in_turns(calls: Mapping[Key, Call], rounds: int, measure: Callable[[Call], float]) -> dict[Key, Rounds]:
    """One measurement of each call per round, so that drift of the machine hits all alike; a first call warms up."""
    for call in calls.values():
        call()
    measured = [{key: measure(call) for key, call in calls.items()} for _ in range(rounds)]
    return {key: [times[key] for times in measured] for key in calls}


def shown(values: Rounds, form: str) -> str:
    """median (smallest-largest)"""
    return f"{statistics.median(values):{form}} ({min(values):{form}}-{max(values):{form}})"


def measure_peers(batches: Mapping[int, Tensor], rounds: int, seconds: float) -> tuple[list[dict[str, Any]], str]:
    """A record for each peer, with images per second by side, and the table."""
    peers = all_peers()
    calls = {
        (row, side): peer.prepare(images)
        for side, images in batches.items()
        for row, peer in enumerate(peers)
        if peer.prepare is not None
    }
    times = in_turns(calls, rounds, functools.partial(seconds_per_call, seconds=seconds))
    rates = {key: [BATCH_SIZES[key[1]] / value for value in values] for key, values in times.items()}
    records, rows = [], []
    for row, peer in enumerate(peers):
        own = {side: rates[row, side] for side in batches if (row, side) in rates}
        ratios = {side: statistics.median(rates[0, side]) / statistics.median(own[side]) for side in own}
        named = [peer.name, peer.takes, peer.operations]
        figures = [shown(own[side], ",.0f") if own else "not installed" for side in batches]
        rows.append([*named, *figures, *(f"{ratios[side]:.2f}" if own else "" for side in batches)])
        what = dict(zip(("peer", "input", "operations"), named, strict=True))
        records.append({**what, "images_per_second": own, "hba_over_peer": ratios})
    headings = ["", "input", "operations", *(f"{size} of {side}x{side}" for side, size in BATCH_SIZES.items())]
    return records, as_markdown([*headings, *(f"hba/peer {side}x{side}" for side in batches)], rows)


def measure_operations(batches: Mapping[int, Tensor], rounds: int, seconds: float) -> tuple[dict[str, Any], str]:
    """Seconds per call of a policy that has one operation and applies it to every image, and the table."""
    calls = {
        (name, side): call_on_floats(one_operation(operation, len(images)), images)
        for side, images in batches.items()
        for name, operation in OPERATIONS.items()
    }
    times = in_turns(calls, rounds, functools.partial(seconds_per_call, seconds=seconds))
    rows = []
    for name in OPERATIONS:
        row = [name]
        for side, images in batches.items():
            row.append(shown([value * 1e6 / len(images) for value in times[name, side]], ",.1f"))
            row.append(f"{statistics.median(times[name, side]) * 1e9 / images.numel():.2f}")
        rows.append(row)
    headings = [heading for side in batches for heading in (f"µs / image of {side}x{side}", "ns / value")]
    seconds_by_name = {name: {side: times[name, side] for side in batches} for name in OPERATIONS}
    return seconds_by_name, as_markdown(["one operation", *headings], rows)


def measure_gpu(images: Tensor, rounds: int, seconds: float) -> tuple[dict[str, Rounds], str]:
    """Seconds per call on the GPU by name, the training step last, and the table."""
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
    step = statistics.median(times[TRAINING_STEP])
    rows = [
        [name, shown([value * 1e3 for value in values], ".3f"), f"{100 * statistics.median(values) / step:.1f} %"]
        for name, values in times.items()
    ]
    size = f"{len(images)} of {GPU_SIDE}x{GPU_SIDE}"
    return times, as_markdown([torch.cuda.get_device_name(), f"ms, {size}", "of a training step"], rows)


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


@click.command(help=__doc__)
@click.option("--rounds", type=click.IntRange(min=1), default=7, show_default=True)
@click.option("--seconds", type=click.FloatRange(min=0), default=2.0, show_default=True, help="Of each measurement.")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Of PyTorch.")
@click.option("--per-operation", is_flag=True, help="Also time each of hba's operations alone.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write all figures here.")
def main(rounds: int, seconds: float, threads: int, per_operation: bool, json_file: Path | None) -> None:
    torch.set_num_threads(threads)
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    batches = {side: photograph_pieces(side, batch_size, rng) for side, batch_size in BATCH_SIZES.items()}
    content: dict[str, Any] = {**environment(torch.device("cpu")), "rounds": rounds, "threads": threads}
    content["seconds_per_measurement"] = seconds
    with contextlib.suppress(PackageNotFoundError):
        content["packages"]["albumentations"] = version("albumentations")
    if torch.cuda.is_available():
        content["gpu"] = torch.cuda.get_device_name()
        content["gpu_seconds_per_call"], table = measure_gpu(batches[GPU_SIDE], rounds, seconds)
        click.echo(f"{table}\n")
    content["peers"], table = measure_peers(batches, rounds, seconds)
    click.echo(f"{table}\n\n{NOTES.read_text(encoding='utf-8')}")
    if per_operation:
        content["operations_seconds_per_call"], table = measure_operations(batches, rounds, seconds)
        click.echo(f"{table}\n")
    click.echo(
        f"{content['device_name']}; {threads} thread(s); {rounds} rounds of {seconds:g} s; {content['packages']}"
    )
    if json_file is not None:
        json_file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
