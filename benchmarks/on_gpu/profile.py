"""What the steps of a search spend their time on."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

import hba
from hba.utils.devices import find_device

WARM_UP = 10
"""Steps before the first that is profiled."""
N_LARGEST = 10


class _Watch(hba.SearchCallback):
    def __init__(self, n_steps: int) -> None:
        self.first, self.last = WARM_UP, WARM_UP + n_steps
        kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])]
        self.profile = profile(activities=kinds)
        self.done = False

    def step_done(self, step: int) -> None:
        if step == self.first:
            self.profile.start()
        if step == self.last:
            self.profile.stop()
            self.done = True

    def stop_requested(self) -> bool:
        return self.done


def most_of(data: str, device: str, settings: Mapping[str, Any], n_steps: int) -> list[str]:
    """The largest entries of so many steps, each with its share: of a GPU's time where there is one."""
    watch = _Watch(n_steps)
    hba.search(data, device=device, seed=0, callback=watch, **settings)
    times = times_of(watch.profile.key_averages(), is_on_gpu=find_device(device).type == "cuda")
    whole = sum(times.values())
    largest = sorted(times, key=times.__getitem__, reverse=True)[:N_LARGEST]
    return [f"{name} {100 * times[name] / whole:.0f} %" for name in largest]


def times_of(entries: Iterable[Any], is_on_gpu: bool) -> dict[str, float]:
    """Microseconds of each entry by itself, by name.

    On a GPU only its kernels count: the operations that launch them report the same time again, and so do the spans
    that a program has named.
    """
    if not is_on_gpu:
        return {entry.key: float(entry.self_cpu_time_total) for entry in entries}
    kernels = [
        one for one in entries if one.device_type.name == "CUDA" and not getattr(one, "is_user_annotation", False)
    ]
    return {entry.key: float(entry.self_device_time_total) for entry in kernels}
