"""Runs tasks on the machines of a Ray cluster; what a lost machine was doing is done again on another."""

import contextlib
import os
import signal
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from hba.distributed.collectives import joined, process_group
from hba.distributed.process_info import GONE, is_first
from hba.errors import ClusterWarning, HbaError, RunError, SettingsError
from hba.executors.executor import (
    Executor,
    OnStep,
    Results,
    Shared,
    TaskFunction,
    Tensors,
    packed,
    packed_run,
    results_of,
    unpacked,
    unpacked_run,
)
from hba.utils.devices import find_device
from hba.utils.files import reason_of
from hba.utils.imports import import_extra
from hba.utils.provenance import VERSION, environment, version_of
from hba.utils.text import counted, first_of

RETRIES = 5
"""How often a task starts again that has lost its machine or its process. An error of its own is final."""
SECONDS_BETWEEN_REPORTS = 0.5
"""Of the steps of one task."""
SECONDS_TO_END = 30
"""For the other processes of a task, once one has ended in an error: theirs may say more."""

T = TypeVar("T")


class Needs(NamedTuple):
    """What a process of a task has for itself."""

    n_cpus: int
    n_gpus: int


class Machine(NamedTuple):
    n_cpus: int
    n_gpus: int


@dataclass(frozen=True)
class Cluster:
    """ray: the library, which is connected."""

    ray: ModuleType

    def machines(self) -> list[Machine]:
        """Those that answer now."""
        sizes = [one["Resources"] for one in self.ray.nodes() if one["Alive"]]
        return [Machine(int(has.get("CPU", 0)), int(has.get("GPU", 0))) for has in sizes]

    def places(self, needs: Needs) -> int:
        """How many such processes all machines can run at a time."""
        per_machine = [(one.n_cpus // needs.n_cpus, one.n_gpus // max(1, needs.n_gpus)) for one in self.machines()]
        return sum(min(places) if needs.n_gpus else places[0] for places in per_machine)

    def needs(self, device: str) -> Needs:
        """What one process needs on the device of that name: with `auto` a GPU where any machine has one, else a CPU.

        The CPUs of a machine are divided among its GPUs. SettingsError where no machine has what is asked.
        """
        machines = self.machines()
        with_gpus = [one for one in machines if one.n_gpus and one.n_cpus]
        if device.startswith("cuda:"):
            raise SettingsError(f"device must be auto, cpu or cuda on a cluster, which chooses the GPU, got {device!r}")
        if device == "cuda" and not with_gpus:
            raise SettingsError(f"no machine of the cluster has a GPU, of {len(machines)}; omit device, or add one")
        if device != "cpu" and with_gpus:
            return Needs(max(1, min(one.n_cpus // one.n_gpus for one in with_gpus)), 1)
        if not any(one.n_cpus for one in machines):
            raise SettingsError("no machine of the cluster has a CPU; start one by ray start --num-cpus")
        return Needs(1, 0)


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[Cluster | None]:
    """Connect to a running cluster, and leave it at the end; None for no address. `auto` finds this machine's cluster.

    A program that is connected already stays so, whatever the address. SettingsError where Ray is not installed,
    RunError where no cluster answers.
    """
    if address is None:
        yield None
        return
    # Ray would report its use to its makers, and ask for permission in the middle of our lines.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = import_extra("ray", "cluster", "a cluster")
    if ray.is_initialized():
        yield Cluster(ray)
        return
    found = os.environ.get("RAY_ADDRESS", address) if address == "auto" else address
    try:
        if found != "auto":
            # Ray itself would try for many minutes.
            host, _, port = found.rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        # Ray sets a handler of its own, which would end this process without keeping anything.
        before = signal.getsignal(signal.SIGTERM)
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)
    except (OSError, OverflowError, RuntimeError, ValueError, AssertionError) as error:
        where = "this machine is in no Ray cluster" if found == "auto" else f"no Ray cluster answers at {found}"
        raise RunError(
            f"{where} ({reason_of(error)}); start one by `ray start --head`, and further machines by `ray start "
            "--address HEAD:6379`, and give auto or HOST:PORT"
        ) from None
    try:
        yield Cluster(ray)
    finally:
        ray.shutdown()


class RayExecutor(Executor):
    """Runs one task at a time on each GPU of a cluster, or on each CPU; or on n_processes of them, which share it.

    Warns where machines compute on different kinds of devices.
    """

    def __init__(self, cluster: Cluster, needs: Needs, n_processes: int = 1) -> None:
        self.cluster, self.needs, self.n_processes = cluster, needs, n_processes
        n_jobs = max(1, cluster.places(needs) // n_processes)
        super().__init__(torch.device("cuda" if needs.n_gpus else "cpu"), n_jobs)

    @property
    def n_threads(self) -> int:
        return self.needs.n_cpus

    @property
    def description(self) -> str:
        return f"{self.device} of {counted(len(self.cluster.machines()), 'machine')}"

    def environment(self) -> Mapping[str, Any]:
        """Of the first machine that answers."""
        several = {"n_processes": self.n_processes} if self.n_processes > 1 else {}
        return {**self.call(_environment, self.needs), **several, "machines": len(self.cluster.machines())}

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        ((_, found),) = RayExecutor(self.cluster, self.needs).run(_call, [(function, arguments)])
        return found

    def _run(self, function: TaskFunction, tasks: Sequence[Any], shared: Shared, on_step: OnStep) -> Results:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        ray = self.cluster.ray
        contents = [packed(task) for task in tasks]
        common = ray.put((packed_run(function, shared), [tensor.cpu().numpy() for tensor in shared.tensors]))
        # On this machine, so that the actor is lost only where the run is lost too.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        progress = ray.remote(num_cpus=0, scheduling_strategy=here)(ProgressActor).remote()
        n_reported, names, running = 0, set[str](), _Running()

        def look() -> None:
            nonlocal n_reported
            n_steps, is_wanted = ray.get(progress.state.remote())
            for _ in range(n_steps - n_reported):
                n_reported += 1
                on_step()
            if is_wanted:
                late = [tensor.cpu().numpy() for tensor in shared.late_tensors()]
                ray.get(progress.provide.remote([ray.put(late)]))

        # A thread for each task waits for it; Ray gives the tasks to its machines in their order.
        threads = ThreadPoolExecutor(self.n_jobs)
        try:
            futures = {
                threads.submit(self._finished, (content, number, [common], progress), running): number
                for number, content in enumerate(contents)
            }
            for number, (result, name) in results_of(futures, look):
                if names and name not in names:
                    warnings.warn(
                        f"tasks ran on different kinds of devices ({first_of([*names, name])}), which round "
                        "otherwise: results may differ a little by where they were computed",
                        ClusterWarning,
                        stacklevel=2,
                    )
                names.add(name)
                yield number, result
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            running.is_cancelled = True
            self._cancel(list(running.processes))
            threads.shutdown()

    def _finished(self, arguments: tuple[Any, ...], running: "_Running") -> Any:
        """The result of a task, in a thread. All its processes start again where one is lost."""
        ray, error = self.cluster.ray, None
        for _ in range(RETRIES + 1):
            processes, room = self._started(arguments)
            running.processes += processes
            try:
                if (error := self._error_of(processes)) is None:
                    return ray.get(processes[0])
            finally:
                self._cancel(processes)
                if room is not None:
                    ray.util.remove_placement_group(room)
            if isinstance(error, ray.exceptions.RayTaskError) and str(error.cause) != GONE:
                if "failed to import" in str(error):
                    raise RunError("a machine of the cluster cannot import hba; install it on all, as here")
                raise error.cause if isinstance(error.cause, HbaError) else error
            if running.is_cancelled:
                break
        raise RunError(
            f"the cluster has lost a task {RETRIES + 1} times, the last time so: {reason_of(error or RunError())}; "
            "what has ended is kept"
        )

    def _started(self, arguments: tuple[Any, ...]) -> tuple[list[Any], Any]:
        """The processes of a task, and the room that is reserved for all of them at once, where there are several."""
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        ray, n = self.cluster.ray, self.n_processes
        options = {"num_cpus": self.needs.n_cpus, "num_gpus": self.needs.n_gpus, "max_retries": 0}
        if n == 1:
            start = ray.remote(**options)(run_task)
            return [start.remote(_versions(), self.needs, 0, 1, None, *arguments)], None
        bundle = {"CPU": self.needs.n_cpus, **({"GPU": self.needs.n_gpus} if self.needs.n_gpus else {})}
        room = ray.util.placement_group([bundle] * n, strategy="PACK")
        places = [PlacementGroupSchedulingStrategy(room, placement_group_bundle_index=i) for i in range(n)]
        address = ray.remote(**options, scheduling_strategy=places[0])(_free_address).remote()
        return [
            ray.remote(**options, scheduling_strategy=place)(run_task).remote(
                _versions(), self.needs, rank, n, address, *arguments
            )
            for rank, place in enumerate(places)
        ], room

    def _cancel(self, processes: Sequence[Any]) -> None:
        """End those that run. Ray may crash where a task is cancelled that has ended."""
        if processes:
            for process in self.cluster.ray.wait(processes, num_returns=len(processes), timeout=0)[1]:
                self.cluster.ray.cancel(process, force=True)

    def _error_of(self, processes: Sequence[Any]) -> Exception | None:
        """What ended the processes of a task, if anything: first an error of their own, last the loss of another."""
        ray = self.cluster.ray
        pending, errors = list(processes), list[Exception]()
        while pending:
            done, pending = ray.wait(pending, timeout=SECONDS_TO_END if errors else None)
            if not done:
                break
            try:
                ray.get(done[0])
            except ray.exceptions.RayError as error:
                errors.append(error)
        own = [one for one in errors if isinstance(one, ray.exceptions.RayTaskError) and str(one.cause) != GONE]
        return next(iter([*own, *errors]), None)


@dataclass
class _Running:
    """The processes of a run, which are cancelled when it is left."""

    processes: list[Any] = field(default_factory=list)
    is_cancelled: bool = False


class ProgressActor:
    """An actor between the tasks and the process that gives them out."""

    def __init__(self) -> None:
        self.steps: dict[int, int] = {}
        self.is_wanted = False
        self.late: list[Any] | None = None

    def report(self, number: int, n_steps: int) -> None:
        """A task that starts again reports fewer steps than before."""
        self.steps[number] = n_steps

    def state(self) -> tuple[int, bool]:
        """How many steps are done, and whether a task waits for the late tensors."""
        return sum(self.steps.values()), self.is_wanted and self.late is None

    def provide(self, late: list[Any]) -> None:
        """late: a reference to the tensors, in a list so that they do not come here themselves."""
        self.late = late

    def request(self) -> list[Any] | None:
        """None until they are there."""
        self.is_wanted = True
        return self.late


def run_task(
    expected: Mapping[str, str | None],
    needs: Needs,
    rank: int,
    size: int,
    address: str | None,
    content: bytes,
    number: int,
    common: list[Any],
    progress: Any,
) -> tuple[Any, str] | None:
    """On a machine of the cluster: the result of a task, and the name of its device; None but from the first process.

    expected: the versions of the machine that asks. address: where the processes of the task meet. common: a reference.
    """
    import ray

    check_versions(expected)
    torch.set_num_threads(needs.n_cpus)
    n_steps, reported_at = 0, time.monotonic()

    def report() -> None:
        nonlocal reported_at
        # All processes of a task do the same steps.
        if is_first():
            ray.get(progress.report.remote(number, n_steps))
            reported_at = time.monotonic()

    def step_done() -> None:
        nonlocal n_steps
        n_steps += 1
        if time.monotonic() - reported_at > SECONDS_BETWEEN_REPORTS:
            report()

    def late_tensors() -> Tensors:
        report()
        while (found := ray.get(progress.request.remote())) is None:
            time.sleep(SECONDS_BETWEEN_REPORTS / 5)
        return _tensors(ray.get(found[0]))

    with contextlib.ExitStack() as stack:
        if size > 1:
            backend = "cpu:gloo,cuda:nccl" if needs.n_gpus else "gloo"
            unfound = "the processes of this task do not find each other"
            stack.enter_context(process_group(backend, unfound, init_method=address, rank=rank, world_size=size))
            stack.enter_context(joined())
        run, arrays = ray.get(common[0])
        function, shared = unpacked_run(run, _tensors(arrays), late_tensors)
        result = function(unpacked(content), shared, step_done)
        # So that the last steps are known before what follows them.
        report()
    return (result, str(_environment(needs)["device_name"])) if rank == 0 else None


def _tensors(arrays: Sequence[np.ndarray]) -> Tensors:
    """Of arrays in memory that the processes of a machine share, and that none of them writes to."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return tuple(torch.from_numpy(array) for array in arrays)


def _call(task: tuple[Callable[..., Any], tuple[Any, ...]], shared: None, step_done: Callable[[], None]) -> Any:
    function, arguments = task
    return function(*arguments)


def _environment(needs: Needs) -> Mapping[str, Any]:
    """Ray lets a task see no other GPU than its own."""
    return environment(find_device("cuda" if needs.n_gpus else "cpu"))


def _versions() -> Mapping[str, str | None]:
    """Of what decides the numbers, on this machine."""
    return {"hba-augment": VERSION, "torch": version_of("torch")}


def check_versions(expected: Mapping[str, str | None]) -> None:
    """RunError where this machine's versions differ from those of the machine that asks."""
    found = _versions()
    if other := [name for name in found if found[name] != expected[name]]:
        text = ", ".join(f"{name} {found[name]} (where it was started {expected[name]})" for name in other)
        raise RunError(f"all machines of a cluster need the same versions, but {socket.gethostname()} has {text}")


def _free_address() -> str:
    """Of this machine."""
    import ray

    with socket.socket() as found:
        found.bind(("", 0))
        return f"tcp://{ray.util.get_node_ip_address()}:{found.getsockname()[1]}"
