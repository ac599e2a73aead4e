"""Runs the steps of a training as CUDA graphs: the host launches a whole step at once, instead of each of its kernels.

A step is a function of tensors. It changes other tensors only in place, such as weights, sums and the state of an
optimizer, and returns tensors. Everything else that it reads must stay the same, because a graph repeats the recorded
kernels. Random numbers come from registered generators, and continue as without a graph.
Ref: https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs
"""

import contextlib
import random
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from hba.errors import HbaError, HbaWarning
from hba.utils.files import reason_of

WARM_UP_RUNS = 3
"""Eager runs of a step before it is recorded; they initialize libraries and the optimizer."""
LIBRARIES = ("hba", "timm", "torch", "torchvision")
"""Packages whose modules and hooks keep no state in Python that changes from step to step."""

T = TypeVar("T")
Tensors = tuple[Tensor, ...]


class StepCounts(NamedTuple):
    """How many steps ran as graphs and eagerly, and why they could not all run as graphs."""

    replayed: int = 0
    eager: int = 0
    reason: str | None = None

    def plus(self, other: "StepCounts") -> "StepCounts":
        return StepCounts(self.replayed + other.replayed, self.eager + other.eager, self.reason or other.reason)

    def __str__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.replayed:,} steps as CUDA graphs, {self.eager:,} without{why}"


class CudaRecorder:
    """Records on a stream of its own, as CUDA graphs that share their memory. generator: None for the default one."""

    def __init__(self, device: torch.device, generator: torch.Generator | None = None) -> None:
        self.generator, self.stream, self.pool = generator, torch.cuda.Stream(device), torch.cuda.graph_pool_handle()

    def run(self, step: Callable[..., T], inputs: Tensors) -> T:
        """Run a step eagerly, as it will be recorded."""
        current = torch.cuda.current_stream(self.stream.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            outputs = step(*inputs)
        current.wait_stream(self.stream)
        return outputs

    def check(self, step: Callable[..., T], inputs: Tensors) -> tuple[T, str | None]:
        """Run a step eagerly; return its outputs, and the warning if the host has waited for the device."""
        before = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                outputs = self.run(step, inputs)
            finally:
                torch.cuda.set_sync_debug_mode(before)
        waits = [str(one.message) for one in found if "called a synchronizing" in str(one.message)]
        return outputs, waits[0] if waits else None

    def record(self, step: Callable[..., T], inputs: Tensors) -> tuple[T, Callable[[], object]]:
        """Run a step once; return its outputs, and a function that repeats its kernels on the same tensors."""
        graph, current = torch.cuda.CUDAGraph(), torch.cuda.current_stream(self.stream.device)
        if self.generator is not None and (register := getattr(graph, "register_generator_state", None)):
            with warnings.catch_warnings():
                # From PyTorch 2.13 on, a graph registers every generator that it uses, and this only warns.
                warnings.simplefilter("ignore")
                register(self.generator)
        try:
            # Other threads may reserve memory meanwhile, such as those that read images ahead.
            with torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"):
                outputs = step(*inputs)
        finally:
            # A capture that fails leaves its stream.
            torch.cuda.set_stream(current)
        graph.replay()
        return outputs, graph.replay


@dataclass
class Recording:
    """A step: the number of its eager runs; once recorded, the tensors that it reads and returns, and its replay."""

    n_runs: int = 0
    inputs: Tensors = ()
    outputs: Any = None
    replay: Callable[[], object] | None = None


class StepGraphs:
    """Runs steps, as graphs by a CudaRecorder, or eagerly by None. optimizer: its learning rates may change.

    reason: why steps do not run as graphs. n_replayed, n_eager: runs so far. recordings: clear them if steps change.
    """

    def __init__(self, recorder: Any = None, optimizer: Optimizer | None = None) -> None:
        self.recorder, self.optimizer = recorder, optimizer
        self.reason: str | None = None
        self.n_replayed = self.n_eager = 0
        self._rates = [torch.zeros((), device=group["params"][0].device) for group in self._groups]
        self.recordings: dict[Hashable, Recording] = {}

    @staticmethod
    def of(
        parts: Iterable[Any], optimizer: Optimizer, generator: torch.Generator, *, wanted: bool | None
    ) -> "StepGraphs":
        """On a GPU, graphs for the steps of these networks and algorithms. wanted: None if all are of LIBRARIES."""
        is_on = wanted is not False and generator.device.type == "cuda"
        graphs = StepGraphs(CudaRecorder(generator.device, generator) if is_on else None, optimizer)
        if is_on and wanted is None and (own := first_own(parts)) is not None:
            graphs._stop(f"a graph would not repeat the Python code of {own}; add --graph if it changes only tensors")
        return graphs

    @property
    def _groups(self) -> list[dict[str, Any]]:
        """Those of the optimizer, whose list is another one after it has loaded a state."""
        return [] if self.optimizer is None else [group for group in self.optimizer.param_groups if group["params"]]

    def run(self, key: Hashable, step: Callable[..., T], *inputs: Tensor) -> T:
        """Return step(*inputs): tensors that the next run may overwrite, because graphs share their memory.

        key: names the step, and everything besides the inputs that decides what it computes.
        """
        if self.recorder is None:
            self.n_eager += 1
            return step(*inputs)
        shapes = tuple((one.shape, one.dtype) for one in inputs)
        recording = self.recordings.setdefault((key, shapes), Recording())
        for rate, group in zip(self._rates, self._groups, strict=True):
            # A number is an argument of the kernel, so nothing waits for its copy.
            rate.fill_(group["lr"])
        if recording.replay is not None:
            for static, given in zip(recording.inputs, inputs, strict=True):
                static.copy_(given.detach())
            recording.replay()
        elif recording.n_runs < WARM_UP_RUNS or not self._is_recorded(recording, step, inputs):
            recording.n_runs += 1
            return self._run_eagerly(step, inputs, is_checked=recording.n_runs == WARM_UP_RUNS)
        self.n_replayed += 1
        return recording.outputs

    def _is_recorded(self, recording: Recording, step: Callable[..., T], inputs: Tensors) -> bool:
        """Record a step, which also runs it; or return False, if that is not possible and nothing has run."""
        with_gradients = torch.is_grad_enabled()
        # Tensors that are made in inference mode cannot be changed outside of it.
        with self._rates_on_device(), torch.inference_mode(False), torch.set_grad_enabled(with_gradients):
            recording.inputs = tuple(one.detach().clone() for one in inputs)
            try:
                recording.outputs, recording.replay = self.recorder.record(step, recording.inputs)
            except (RuntimeError, HbaError) as error:
                self._stop(f"a step cannot be recorded ({reason_of(error)})")
        return recording.replay is not None

    def _run_eagerly(self, step: Callable[..., T], inputs: Tensors, *, is_checked: bool) -> T:
        """Run a step as it will be recorded. is_checked: find out whether it can be; a first run makes constants."""
        self.n_eager += 1
        if self.recorder is None:
            return step(*inputs)
        before = random_states_of_host()
        with self._rates_on_device():
            outputs, wait = self.recorder.check(step, inputs) if is_checked else (self.recorder.run(step, inputs), None)
        if is_checked and random_states_of_host() != before:
            self._stop("a step draws from a random generator of the host")
        elif wait is not None:
            self._stop(f"in a step, the host waits for the GPU ({wait})")
        return outputs

    @property
    def counts(self) -> StepCounts | None:
        """None if graphs were not wanted, there is no GPU, or the algorithm gives no steps."""
        is_wanted = self.recorder is not None or self.reason is not None
        return StepCounts(self.n_replayed, self.n_eager, self.reason) if is_wanted and self.n_eager else None

    def _stop(self, reason: str) -> None:
        warnings.warn(f"steps run without CUDA graphs: {reason}", HbaWarning, stacklevel=2)
        self.recorder, self.reason = None, reason

    @contextlib.contextmanager
    def _rates_on_device(self) -> Iterator[None]:
        """The optimizer reads learning rates from tensors, and its schedule computes with numbers."""
        numbers = [group["lr"] for group in self._groups]
        for group, rate in zip(self._groups, self._rates, strict=True):
            group["lr"] = rate
        try:
            yield
        finally:
            for group, number in zip(self._groups, numbers, strict=True):
                group["lr"] = number


def first_own(parts: Iterable[Any]) -> str | None:
    """The name of the first module, hook or other object that is not of LIBRARIES; None if all are."""
    found = [one for part in parts for one in (part.modules() if isinstance(part, nn.Module) else [part])]
    fields = chain(*(getattr(one, "__dict__", {}).items() for one in found))
    by_name = [hooks for name, hooks in fields if name.endswith("_hooks")]
    named = [one if hasattr(one, "__qualname__") else type(one) for one in (*found, *chain(*map(dict.values, by_name)))]
    return next((one.__qualname__ for one in named if one.__module__.partition(".")[0] not in LIBRARIES), None)


def may_record(images: Tensor) -> bool:
    """Whether a graph can be recorded here: on a GPU, and in nothing that is being recorded or compiled already."""
    is_free = images.device.type == "cuda" and not torch.compiler.is_compiling()
    return is_free and not torch.cuda.is_current_stream_capturing()


def random_states_of_host() -> tuple[Any, ...]:
    of_numpy: Any = np.random.get_state(legacy=True)
    return random.getstate(), of_numpy[1].tobytes(), of_numpy[2:], torch.random.get_rng_state().numpy().tobytes()


EAGER = StepGraphs()
"""Runs every step eagerly."""
