"""Images per second of one policy call, and of torchvision, kornia and albumentations
on the same images.
"""

import statistics
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from common.timing import in_turns
from sklearn.datasets import load_sample_images
from torch import Tensor

from hba.models import build_model
from hba.utils.text import as_markdown
from speeds.peers import SEED, Call, all_peers, kornia_rand_augment, two_operations

BATCH_SIZES = {32: 128, 224: 32}
"""Images in a batch, by their height and width in pixels."""
GPU_SIDE = 32
TRAINING_STEP = "WRN-40-2 training step"
NOTES = Path(__file__).with_name("notes.md")

Rounds = Sequence[float]
"""One measurement per round."""


def photograph_pieces(side: int, n_pieces: int, random: np.random.Generator) -> Tensor:
    """uint8 (n_pieces, 3, side, side), cropped at random from the two photographs that
    ship with scikit-learn.
    """
    photographs = [photograph.copy() for photograph in load_sample_images().images]
    pieces = []
    for index in range(n_pieces):
        photograph = photographs[index % len(photographs)]
        top, left = (
            int(random.integers(length - side)) for length in photograph.shape[:2]
        )
        pieces.append(
            torch.from_numpy(photograph[top : top + side, left : left + side]).permute(
                2, 0, 1
            )
        )
    return torch.stack(pieces)


def batches() -> dict[int, Tensor]:
    random = np.random.default_rng(SEED)
    return {
        side: photograph_pieces(side, batch_size, random)
        for side, batch_size in BATCH_SIZES.items()
    }


def seconds_per_call(call: Call, seconds: float) -> float:
    """Mean wall-clock seconds per call, over calls that together take at least
    `seconds`; a first call warms up.
    """
    call()
    n_calls = 0
    elapsed = 0.0
    start = time.perf_counter()
    while elapsed < seconds or n_calls == 0:
        call()
        n_calls += 1
        elapsed = time.perf_counter() - start
    return elapsed / n_calls


def gpu_seconds_per_call(call: Call, seconds: float) -> float:
    """Mean seconds between CUDA events around about `seconds` of calls; the host waits
    only before and after them.
    """

    def finished_call() -> None:
        call()
        torch.cuda.synchronize()

    torch.cuda.synchronize()
    n_calls = max(1, round(seconds / seconds_per_call(finished_call, seconds / 10)))
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(n_calls):
        call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1e3 / n_calls


def shown(values: Rounds, form: str) -> str:
    """median (smallest-largest)"""
    return (
        f"{statistics.median(values):{form}}"
        f" ({min(values):{form}}-{max(values):{form}})"
    )


def peer_table(rounds: int, seconds: float) -> str:
    """A Markdown table: images per second of each peer, and how many times as fast hba
    is.
    """
    images = batches()
    peers = all_peers()
    timed = {
        (row, side): partial(seconds_per_call, peer.prepare(batch), seconds)
        for side, batch in images.items()
        for row, peer in enumerate(peers)
        if peer.prepare is not None
    }
    times = in_turns(timed, rounds)
    rates = {
        key: [BATCH_SIZES[key[1]] / value for value in values]
        for key, values in times.items()
    }
    rows = []
    for row, peer in enumerate(peers):
        row_rates = {side: rates[row, side] for side in images if (row, side) in rates}
        medians = {side: statistics.median(rate) for side, rate in row_rates.items()}
        ratios = [
            f"{statistics.median(rates[0, side]) / median:.2f}"
            for side, median in medians.items()
        ] or [""] * len(images)
        figures = [shown(rate, ",.0f") for rate in row_rates.values()]
        if not figures:
            figures = ["not installed"] * len(images)
        rows.append(
            [
                peer.name,
                peer.takes,
                peer.operations,
                *figures,
                *ratios,
            ]
        )
    headings = [
        "",
        "input",
        "operations",
        *(f"{size} of {side}x{side}" for side, size in BATCH_SIZES.items()),
    ]
    return as_markdown(
        [*headings, *(f"hba/peer {side}x{side}" for side in images)], rows
    )


def gpu_times(rounds: int, seconds: float) -> Mapping[str, Rounds]:
    """Seconds per call on the GPU, by name; the training step is the last."""
    device = torch.device("cuda")
    batch = batches()[GPU_SIDE].to(device).float() / 255
    policy, recorded = (two_operations(len(batch)).to(device) for _ in range(2))
    recorded.graph = True
    calls: dict[str, Call] = {
        "hba, as a graph": partial(recorded, batch),
        "hba, eager": partial(policy, batch),
        "hba, compiled": partial(
            torch.compile(policy, mode="reduce-overhead", fullgraph=True), batch
        ),
        "kornia RandAugment, one draw a batch": partial(kornia_rand_augment(), batch),
        TRAINING_STEP: training_step(batch),
    }
    timed = {
        name: partial(gpu_seconds_per_call, call, seconds)
        for name, call in calls.items()
    }
    return in_turns(timed, rounds)


def gpu_table(times: Mapping[str, Rounds]) -> str:
    step = statistics.median(times[TRAINING_STEP])
    rows = [
        [
            name,
            shown([value * 1e3 for value in values], ".3f"),
            f"{100 * statistics.median(values) / step:.1f} %",
        ]
        for name, values in times.items()
    ]
    size = f"{BATCH_SIZES[GPU_SIDE]} of {GPU_SIDE}x{GPU_SIDE}"
    return as_markdown(
        [torch.cuda.get_device_name(), f"ms, {size}", "of a training step"], rows
    )


def training_step(batch: Tensor) -> Call:
    """A forward and backward pass and a step of SGD with Nesterov momentum, in float32,
    with PyTorch's defaults.
    """
    network = build_model("wrn-40-2", 10, seed=SEED).to(batch.device).train()
    optimizer = torch.optim.SGD(
        network.parameters(), lr=1e-3, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    labels = torch.arange(len(batch), device=batch.device) % 10

    def step() -> None:
        loss = F.cross_entropy(network(batch), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step
