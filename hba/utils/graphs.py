"""Runs the steps of a training as CUDA graphs: the host launches a whole step at once,
instead of each of its kernels.

A step is a function of tensors. It changes other tensors only in place, such as
weights, sums and the state of an optimizer, and returns tensors. Everything else that
it reads must stay the same, because a graph repeats the recorded kernels. Random
numbers come from registered generators, and continue as without a graph.

A step runs eagerly EAGER_RUNS times. In the last of these, its graph is compared with
the eager run, whose results are kept: a graph is used only once it has done what Python
does, with other inputs, another learning rate and other random numbers than when it was
recorded. Ref: https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs
"""

import contextlib
import functools
import math
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.optim import Optimizer

from hba.errors import HbaError, HbaWarning
from hba.utils.files import reason_of
from hba.utils.graph_checks import (
    StepState,
    compare_runs,
    first_own,
    random_states_of_host,
)
from hba.utils.seeding import default_generator_of

WARM_UP_RUNS = 3
"""Eager runs of a step before it is recorded; they initialize libraries and the
optimizer.
"""
EAGER_RUNS = WARM_UP_RUNS + 2
"""Those, the run after which a step has been recorded, and the run that its graph is
compared with.
"""
LEAST_PYTORCH = "2.13"
"""Earlier versions leave generators and memory of a failed recording as they are, so
that later draws fail.
"""

T = TypeVar("T")
Tensors = tuple[Tensor, ...]


class StepCounts(NamedTuple):
    """How many steps ran as graphs and eagerly."""

    replayed: int = 0
    """Number of steps that ran as graphs."""
    eager: int = 0
    """Number of steps that ran eagerly."""
    reason: str | None = None
    """Why they could not all run as graphs."""

    def plus(self, other: "StepCounts") -> "StepCounts":
        return StepCounts(
            self.replayed + other.replayed,
            self.eager + other.eager,
            self.reason or other.reason,
        )

    def __str__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.replayed:,} steps as CUDA graphs, {self.eager:,} without{why}"


@functools.cache
def stream_of(device: torch.device) -> torch.cuda.Stream:
    """The stream of all recordings on a device.

    It is a single one, because libraries keep memory for each stream that they have run
    on.
    """
    return torch.cuda.Stream(device)


class CudaRecorder:
    """Records CUDA graphs that share memory.

    Args:
        device: The GPU.
        generator: None for the default one.
    """

    def __init__(
        self, device: torch.device, generator: torch.Generator | None = None
    ) -> None:
        self.generator = generator
        self.stream = stream_of(device)
        self.clear()

    def clear(self) -> None:
        """Give later graphs other memory.

        The memory of earlier ones is free once they are gone.
        """
        self.pool = torch.cuda.graph_pool_handle()

    def run(self, step: Callable[..., T], inputs: Tensors) -> T:
        """Run a step eagerly, as it will be recorded."""
        current = torch.cuda.current_stream(self.stream.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            outputs = step(*inputs)
        current.wait_stream(self.stream)
        return outputs

    def check(self, step: Callable[..., T], inputs: Tensors) -> tuple[T, str | None]:
        """Run a step eagerly, and find out whether the host waits for the device.

        Returns:
            The outputs of the step, and the warning if the host has waited.
        """
        before = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                outputs = self.run(step, inputs)
            finally:
                torch.cuda.set_sync_debug_mode(before)
        waits = [
            warning
            for warning in caught
            if "called a synchronizing" in str(warning.message)
        ]
        for warning in caught:
            if warning not in waits:
                warnings.warn_explicit(
                    warning.message, warning.category, warning.filename, warning.lineno
                )
        return outputs, str(waits[0].message) if waits else None

    def record(
        self, step: Callable[..., T], inputs: Tensors
    ) -> tuple[T, Callable[[], object]]:
        """Record a step without running it.

        Returns:
            The outputs of the step, and a function that runs it on the same tensors.
        """
        # PyTorch registers generators on the current device, and sets it when a stream
        # is set.
        with torch.cuda.device(self.stream.device):
            graph = torch.cuda.CUDAGraph()
            current = torch.cuda.current_stream()
            if self.generator is not None and (
                register := getattr(graph, "register_generator_state", None)
            ):
                with warnings.catch_warnings():
                    # From PyTorch 2.13 on, a graph registers every generator that it
                    # uses, and this only warns.
                    warnings.simplefilter("ignore")
                    register(self.generator)
            try:
                # Other threads may reserve memory meanwhile, such as those that read
                # images ahead.
                with torch.cuda.graph(
                    graph,
                    pool=self.pool,
                    stream=self.stream,
                    capture_error_mode="thread_local",
                ):
                    outputs = step(*inputs)
            finally:
                # A capture that fails leaves its stream.
                torch.cuda.set_stream(current)
        return outputs, graph.replay


@dataclass
class Recording:
    """A step, and its graph, if there is one."""

    n_runs: int = 0
    """Number of eager runs of the step before it is recorded."""
    is_proven: bool = False
    """Whether a graph of the step has done the same as the step."""
    inputs: Tensors = ()
    """The tensors that the graph reads."""
    outputs: Any = None
    """The tensors that the graph returns."""
    replay: Callable[[], object] | None = None
    """Runs the graph."""
    step: Callable[..., Any] | None = None
    """The function of the step, kept because the graph reads its tensors too."""

    def run(self, inputs: Tensors) -> Any:
        assert self.replay is not None
        for static, tensor in zip(self.inputs, inputs, strict=True):
            static.copy_(tensor.detach())
        self.replay()
        return self.outputs

    def free(self) -> None:
        self.inputs = ()
        self.outputs = None
        self.replay = None
        self.step = None


class StepGraphs:
    """Runs steps as CUDA graphs, or eagerly.

    The attribute `reason` says why steps do not run as graphs; `n_replayed` and
    `n_eager` count the runs so far.

    Args:
        recorder: A CudaRecorder; None runs steps eagerly.
        optimizer: Its learning rates may change.
        state: Everything that steps change, as tensors_in takes it.
        generators: Those that steps draw from.
        most_recordings: Number of recorded steps beyond which others run eagerly.
    """

    def __init__(
        self,
        recorder: Any = None,
        optimizer: Optimizer | None = None,
        state: Any = (),
        generators: Sequence[torch.Generator] = (),
        most_recordings: float = math.inf,
    ) -> None:
        self.recorder = recorder
        self.optimizer = optimizer
        self.state = state
        self.generators = generators
        self.most_recordings = most_recordings
        self.reason: str | None = None
        self.n_replayed = 0
        self.n_eager = 0
        self._rates = [
            torch.zeros((), device=group["params"][0].device) for group in self._groups
        ]
        self.recordings: dict[Hashable, Recording] = {}

    @staticmethod
    def of(
        parts: Iterable[Any],
        optimizer: Optimizer,
        generator: torch.Generator,
        state: Any,
        *,
        wanted: bool | None,
    ) -> "StepGraphs":
        """Graphs for steps on a GPU; eager runs on other devices.

        Args:
            parts: The networks, functions and algorithms of the steps.
            optimizer: As StepGraphs takes it.
            generator: On the device of the steps, which draw from it and from the
                default one.
            state: As StepGraphs takes it.
            wanted: Whether to use graphs; None uses them from LEAST_PYTORCH on, if all
                parts are of LIBRARIES.
        """
        if wanted is False or generator.device.type != "cuda":
            return StepGraphs()
        generators = generator, default_generator_of(generator.device)
        graphs = StepGraphs(
            CudaRecorder(generator.device, generator), optimizer, state, generators
        )
        if wanted is None and torch.__version__ < LEAST_PYTORCH:
            graphs.recorder = None
            graphs.reason = (
                f"by default only from PyTorch {LEAST_PYTORCH} on; --graph records them"
            )
        elif wanted is None and (user_code := first_own(parts)) is not None:
            graphs._stop(
                f"a graph would not repeat the Python code of {user_code}; add --graph"
                " if it changes only tensors"
            )
        return graphs

    @property
    def _groups(self) -> list[dict[str, Any]]:
        """Those of the optimizer, whose list is another one after it has loaded a
        state.
        """
        return (
            []
            if self.optimizer is None
            else [group for group in self.optimizer.param_groups if group["params"]]
        )

    def run(self, key: Hashable, step: Callable[..., T], *inputs: Tensor) -> T:
        """Return step(*inputs): tensors that the next run may overwrite.

        Graphs share their memory.

        Args:
            key: Names the step, and everything besides the inputs that decides what it
                computes.
            step: A function of tensors, as the module describes it.
            inputs: The tensors that differ from run to run.
        """
        if self.recorder is None:
            self.n_eager += 1
            return step(*inputs)
        key = key, tuple((tensor.shape, tensor.dtype) for tensor in inputs)
        if key not in self.recordings and len(self.recordings) >= self.most_recordings:
            self.n_eager += 1
            return step(*inputs)
        recording = self.recordings.setdefault(key, Recording())
        for rate, group in zip(self._rates, self._groups, strict=True):
            # A number is an argument of the kernel, so nothing waits for its copy.
            rate.fill_(group["lr"])
        if not recording.is_proven:
            return self._run_before_graph(recording, step, inputs)
        if recording.replay is None:
            self._record(recording, step, inputs)
        if recording.replay is None:
            return self._run_eagerly(step, inputs)
        self.n_replayed += 1
        outputs: T = recording.run(inputs)
        return outputs

    def _run_before_graph(
        self, recording: Recording, step: Callable[..., T], inputs: Tensors
    ) -> T:
        """Run a step without a graph, or whose graph was not compared with it."""
        if recording.replay is not None:
            return self._prove(recording, step, inputs)
        recording.n_runs += 1
        generators = StepState((), self.generators)
        begun = generators.saved()
        outputs = self._run_eagerly(
            step, inputs, is_checked=recording.n_runs == WARM_UP_RUNS
        )
        if self.recorder is not None and recording.n_runs > WARM_UP_RUNS:
            ended = generators.saved()
            # If the graph kept random numbers, they would be those of this run, and
            # differ from those of the next.
            generators.restore(begun)
            self._record(recording, step, inputs)
            generators.restore(ended)
        return outputs

    def clear(self) -> None:
        """Free the memory of all graphs.

        Steps, which may now be others, are recorded anew when they run next.
        """
        for recording in self.recordings.values():
            recording.free()
        if self.recorder is not None:
            self.recorder.clear()

    def _record(
        self, recording: Recording, step: Callable[..., T], inputs: Tensors
    ) -> None:
        """Record a step, which runs nothing, or stop if that is not possible."""
        with_gradients = torch.is_grad_enabled()
        try:
            # Tensors that are made in inference mode cannot be changed outside of it.
            with (
                self._optimizer_as_recorded(capturable=True),
                torch.inference_mode(False),
                torch.set_grad_enabled(with_gradients),
            ):
                recording.step = step
                recording.inputs = tuple(tensor.detach().clone() for tensor in inputs)
                recording.outputs, recording.replay = self.recorder.record(
                    step, recording.inputs
                )
        except (RuntimeError, HbaError) as error:
            self._stop(f"a step cannot be recorded ({reason_of(error)})")

    def _prove(
        self, recording: Recording, step: Callable[..., T], inputs: Tensors
    ) -> T:
        """Run a step eagerly, and compare its graph with that; stop if it does
        something else.
        """
        recorder = self.recorder
        changed = StepState(self.state, self.generators, self.optimizer)
        try:
            with self._optimizer_as_recorded():
                outputs, difference = compare_runs(
                    changed,
                    lambda: recorder.run(step, inputs),
                    lambda: recording.run(inputs),
                )
        except (RuntimeError, HbaError) as error:
            self._stop(f"a graph cannot be compared with its step ({reason_of(error)})")
        if self.recorder is None:
            return self._run_eagerly(step, inputs)
        self.n_eager += 1
        recording.is_proven = difference is None
        if difference is not None:
            self._stop(f"a graph would not repeat a step: {difference}")
        return outputs

    def _run_eagerly(
        self, step: Callable[..., T], inputs: Tensors, *, is_checked: bool = False
    ) -> T:
        """Run a step as it will be recorded. is_checked: find out whether it can be; a
        first run makes constants.
        """
        self.n_eager += 1
        if self.recorder is None:
            return step(*inputs)
        with self._optimizer_as_recorded():
            if not is_checked:
                outputs: T = self.recorder.run(step, inputs)
                return outputs
            before = random_states_of_host()
            outputs, wait = self.recorder.check(step, inputs)
        if random_states_of_host() != before:
            self._stop("a step draws from a random generator of the host")
        elif wait is not None:
            self._stop(f"in a step, the host waits for the GPU ({wait})")
        return outputs

    @property
    def counts(self) -> StepCounts | None:
        """How the steps ran.

        None if graphs were not wanted, there is no GPU, or the algorithm gives no
        steps.
        """
        is_wanted = self.recorder is not None or self.reason is not None
        return (
            StepCounts(self.n_replayed, self.n_eager, self.reason)
            if is_wanted and self.n_eager
            else None
        )

    def _stop(self, reason: str) -> None:
        warnings.warn(
            f"steps run without CUDA graphs: {reason}", HbaWarning, stacklevel=2
        )
        self.recorder = None
        self.reason = reason
        self.clear()

    @contextlib.contextmanager
    def _optimizer_as_recorded(self, *, capturable: bool = False) -> Iterator[None]:
        """Fuse the optimizer, which then reads learning rates from tensors; its
        schedule computes with numbers.

        capturable: what PyTorch demands of some optimizers in a recording, and warns
        about elsewhere.
        """
        before = [dict(group) for group in self._groups]
        for group, rate in zip(self._groups, self._rates, strict=True):
            settings = {
                "lr": rate,
                "fused": True,
                "foreach": False,
                "capturable": capturable,
            }
            group.update(
                {name: value for name, value in settings.items() if name in group}
            )
        try:
            yield
        finally:
            for group, settings in zip(self._groups, before, strict=True):
                group.update(settings)


def may_record(images: Tensor) -> bool:
    """Whether a graph can be recorded here.

    It can on a GPU, and in nothing that is being recorded or compiled already.
    """
    # Without a driver, there are tensors of a GPU that have no content.
    is_free = (
        images.device.type == "cuda"
        and torch.cuda.is_initialized()
        and not torch.compiler.is_compiling()
    )
    return is_free and not torch.cuda.is_current_stream_capturing()


EAGER = StepGraphs()
"""Runs every step eagerly."""
