"""One seed decides a whole run: every purpose derives its own random stream from it."""

import contextlib
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from hba.utils.devices import exact_device


def derived_seed(seed: int, purpose: str) -> int:
    """A seed for one purpose, independent of the seeds for all others."""
    sequence = np.random.SeedSequence([seed, zlib.crc32(purpose.encode())])
    return int(sequence.generate_state(1)[0])


def generator_for(seed: int, purpose: str, device: torch.device) -> torch.Generator:
    """A generator for one purpose.

    It is on the device where random numbers are drawn for this one.
    """
    return torch.Generator(exact_device(device)).manual_seed(
        derived_seed(seed, purpose)
    )


def default_generator_of(device: torch.device) -> torch.Generator:
    """torch's default generator of the CPU, or of a GPU."""
    if device.type != "cuda":
        return torch.default_generator
    index = torch.cuda.current_device() if device.index is None else device.index
    return torch.cuda.default_generators[index]


@contextlib.contextmanager
def default_generators(device: torch.device, seed: int | None = None) -> Iterator[None]:
    """Seed torch's default generators, and restore them afterwards.

    These are the generators of the CPU and the device. Those of other GPUs, which
    torch.manual_seed would seed too, are not touched.

    Args:
        device: Whose generator is seeded.
        seed: None only restores the generators.
    """
    with (
        torch.random.fork_rng([device] if device.type == "cuda" else []),
        contextlib.ExitStack() as stack,
    ):
        if device.type == "mps":
            stack.callback(torch.mps.set_rng_state, torch.mps.get_rng_state())
        if seed is not None:
            torch.default_generator.manual_seed(seed)
            if device.type == "cuda":
                with torch.cuda.device(device):
                    torch.cuda.manual_seed(seed)
            elif device.type == "mps":
                torch.mps.manual_seed(seed)
        yield


def default_generator_state(device: torch.device) -> dict[str, Any]:
    """State of torch's default generators, which layers such as dropout draw from."""
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        state["mps"] = torch.mps.get_rng_state()
    return state


def restore_default_generators(state: dict[str, Any], device: torch.device) -> None:
    torch.set_rng_state(state["cpu"].cpu())
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"].cpu(), device)
    elif device.type == "mps" and "mps" in state:
        torch.mps.set_rng_state(state["mps"].cpu())
