"""Runs tasks on the machines of a Ray cluster; what a lost machine was doing is done again on another."""

import contextlib
import os
import signal
import socket
import sys
import sysconfig
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

import cloudpickle
import numpy as np
import torch

from hba.distributed.collectives import joined, process_group
from hba.distributed.process_info import GONE
from hba.errors import ClusterWarning, HbaError, RunError, SettingsError
from hba.executors.executor import (
    SECONDS_BETWEEN_LOOKS,
    Executor,
    OnStep,
    Results,
    Shared,
    TaskFunction,
    Tensors,
    packed,
    packed_run,
    unpacked,
    unpacked_run,
)
from hba.utils.devices import VERSION, environment, find_device, version_of
from hba.utils.files import reason_of
from hba.utils.imports import import_extra
from hba.utils.text import counted, first_of

RETRIES = 5
"""How often a task starts again that has lost its machine or its process. An error of its own is final."""
SECONDS_TO_END = 30
"""For the other processes of a task, once one has ended in an error: theirs may say more."""

T = TypeVar("T")


class Needs(NamedTuple):
    """What a process of a task needs for itself, or what a machine has."""

    n_cpus: int
    n_gpus: int


@dataclass(frozen=True)
class Cluster:
    """ray: the library, which is connected."""

    ray: ModuleType

    def machines(self) -> list[Needs]:
        """What the machines have that answer now."""
        found = [one["Resources"] for one in self.ray.nodes() if one["Alive"]]
        return [Needs(int(has.get("CPU", 0)), int(has.get("GPU", 0))) for has in found]

    def places(self, needs: Needs) -> int:
        """How many such processes all machines can run at a time."""
        pairs = [[(has // need) for has, need in zip(one, needs, strict=True) if need] for one in self.machines()]
        return sum(map(min, pairs))

    def needs(self, device: str) -> Needs:
        """What one process needs on the device of that name: with `auto` a GPU where any machine has one, else a CPU.

        The CPUs of a machine are divided among its GPUs. SettingsError where no machine has what is asked.
        """
        with_gpus = [one for one in self.machines() if one.n_gpus and one.n_cpus]
        if device.startswith("cuda:"):
            raise SettingsError(f"device must be auto, cpu or cuda on a cluster, which chooses the GPU, got {device!r}")
        if device != "cpu" and with_gpus:
            return Needs(max(1, min(one.n_cpus // one.n_gpus for one in with_gpus)), 1)
        if device == "cuda" or not any(one.n_cpus for one in self.machines()):
            kind = "GPU" if device == "cuda" else "CPU"
            raise SettingsError(
                f"no machine of the cluster has a {kind}, of {len(self.machines())}; choose another device"
            )
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
    try:
        if address != "auto":
            # Ray itself would try for many minutes.
            host, _, port = address.rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        # Ray sets a handler of its own, which would end this process without keeping anything.
        before = signal.getsignal(signal.SIGTERM)
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)
    except (OSError, OverflowError, RuntimeError, ValueError, AssertionError) as error:
        raise RunError(
            f"no Ray cluster answers at {address} ({reason_of(error)}); start one by `ray start --head`, and further "
            "machines by `ray start --address HEAD:6379`, and give auto or HOST:PORT"
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
        def task(arguments: Any, shared: None, step_done: OnStep) -> T:
            return function(*arguments)

        ((_, found),) = RayExecutor(self.cluster, self.needs).run(task, [arguments])
        return found

    def _run(self, function: TaskFunction, tasks: Sequence[Any], shared: Shared, on_step: OnStep) -> Results:
        ray = self.cluster.ray
        _send_own_modules()
        contents = [packed(task) for task in tasks]
        common = [ray.put((packed_run(function, shared), [tensor.cpu().numpy() for tensor in shared.tensors]))]
        on_demand = ray.remote(num_cpus=0, scheduling_strategy=_here())(LateTensors).remote()
        rooms = [self._room() for _ in tasks if self.n_processes > 1]
        refs, late = self._started(rooms, contents, common, on_demand), None
        waiting, names = list(refs), set[str]()
        try:
            while waiting:
                done, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=SECONDS_BETWEEN_LOOKS)
                if late is None and ray.get(on_demand.is_asked.remote()):
                    late = ray.put([tensor.cpu().numpy() for tensor in shared.late_tensors()])
                    ray.get(on_demand.provide.remote([late]))
                for ref in done if rooms else ():
                    ray.util.remove_placement_group(rooms[refs.index(ref)])
                results, errors = self._ended(done)
                for ref, (result, n_steps, name) in results.items():
                    for _ in range(n_steps):
                        on_step()
                    _warn_of_devices(names, name)
                    yield refs.index(ref), result
                if errors:
                    raise errors[0]
        finally:
            for ref in waiting:
                ray.cancel(ref, force=True)
            if waiting:
                ray.wait(waiting, num_returns=len(waiting), timeout=SECONDS_TO_END)
            for ref in waiting if rooms else ():
                ray.util.remove_placement_group(rooms[refs.index(ref)])

    def _started(self, rooms: Sequence[Any], contents: Sequence[bytes], common: Any, on_demand: Any) -> list[Any]:
        """References to the results of the tasks. rooms: of the tasks that several processes share."""
        ray = self.cluster.ray
        shared = (_versions(), self.needs)
        if not rooms:
            start = ray.remote(num_cpus=self.needs.n_cpus, num_gpus=self.needs.n_gpus, max_retries=RETRIES)(run_task)
            return [start.remote((0, 1, None), *shared, content, common, on_demand) for content in contents]
        options = {"max_retries": RETRIES, "retry_exceptions": [LostError], "scheduling_strategy": _here()}
        start = ray.remote(num_cpus=0, **options)(run_group)
        return [
            start.remote(room, self.n_processes, *shared, content, common, on_demand)
            for room, content in zip(rooms, contents, strict=True)
        ]

    def _room(self) -> Any:
        """The reserved places of all processes of a task, on one machine if possible."""
        bundle = {"CPU": self.needs.n_cpus, **({"GPU": self.needs.n_gpus} if self.needs.n_gpus else {})}
        return self.cluster.ray.util.placement_group([bundle] * self.n_processes, strategy="PACK")

    def _ended(self, done: Sequence[Any]) -> tuple[dict[Any, Any], list[Exception]]:
        """The results of tasks that have ended, and the errors of those that failed for good."""
        ray = self.cluster.ray
        results: dict[Any, Any] = {}
        errors: list[Exception] = []
        for ref in done:
            try:
                results[ref] = ray.get(ref)
            except ray.exceptions.RayTaskError as error:
                if "failed to import" in str(error):
                    errors.append(RunError("a machine of the cluster cannot import hba; install it on all, as here"))
                else:
                    errors.append(error.cause if isinstance(error.cause, HbaError) else error)
            except ray.exceptions.RayError as error:
                lost = f"the cluster has lost a task {RETRIES + 1} times, the last time so: {reason_of(error)}"
                errors.append(RunError(f"{lost}; what has ended is kept"))
        return results, errors


def _here() -> Any:
    """On this machine, so that what runs there is lost only where the run is lost too."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)


def _warn_of_devices(names: set[str], name: str) -> None:
    if names and name not in names:
        text = f"tasks ran on different kinds of devices ({first_of([*names, name])}), which round otherwise"
        warnings.warn(f"{text}: results may differ a little by where they were computed", ClusterWarning, stacklevel=4)
    names.add(name)


class LateTensors:
    """An actor that hands the late tensors from the process that gives the tasks out to the tasks that ask for them."""

    def __init__(self) -> None:
        self.asked = False
        self.late: list[Any] | None = None

    def is_asked(self) -> bool:
        return self.asked

    def provide(self, late: list[Any]) -> None:
        """late: a reference to the tensors, in a list so that they do not come here themselves."""
        self.late = late

    def request(self) -> list[Any] | None:
        """None until they are there."""
        self.asked = True
        return self.late


class LostError(RunError):
    """A process of a task is lost: all its processes start again."""


def run_group(room: Any, n_processes: int, versions: Mapping[str, str | None], needs: Needs, *arguments: Any) -> Any:
    """The result of a task that so many processes share. LostError where one of them is lost."""
    import ray
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    starts = [
        ray.remote(
            num_cpus=needs.n_cpus,
            num_gpus=needs.n_gpus,
            max_retries=0,
            scheduling_strategy=PlacementGroupSchedulingStrategy(room, number),
        )
        for number in range(n_processes)
    ]
    address = starts[0](_free_address).remote()
    processes = [
        start(run_task).remote((rank, n_processes, ray.get(address)), versions, needs, *arguments)
        for rank, start in enumerate(starts)
    ]
    pending, is_lost = processes, False
    while pending:
        done, pending = ray.wait(pending, timeout=SECONDS_TO_END if is_lost else None)
        if not done:
            break
        try:
            ray.get(done[0])
        except ray.exceptions.RayTaskError as error:
            if str(error.cause) != GONE:
                raise
            is_lost = True
        except ray.exceptions.RayError:
            is_lost = True
    for process in pending:
        ray.cancel(process, force=True)
    if is_lost:
        raise LostError(GONE)
    return ray.get(processes[0])


def run_task(
    group: tuple[int, int, str | None],
    versions: Mapping[str, str | None],
    needs: Needs,
    content: bytes,
    common: list[Any],
    on_demand: Any,
) -> tuple[Any, int, str]:
    """On a machine of the cluster: the result of a task, its number of steps, and the name of its device.

    group: rank and number of the task's processes, and where they meet. versions: of the machine that asks. common: a
    reference.
    """
    import ray

    check_versions(versions)
    rank, n_processes, address = group
    torch.set_num_threads(needs.n_cpus)
    steps: list[None] = []

    def late_tensors() -> Tensors:
        while (found := ray.get(on_demand.request.remote())) is None:
            time.sleep(SECONDS_BETWEEN_LOOKS / 2)
        return _tensors(ray.get(found[0]))

    with contextlib.ExitStack() as stack:
        if n_processes > 1:
            backend = "cpu:gloo,cuda:nccl" if needs.n_gpus else "gloo"
            where = {"init_method": address, "rank": rank, "world_size": n_processes}
            stack.enter_context(process_group(backend, GONE, **where))
            stack.enter_context(joined())
        run, arrays = ray.get(common[0])
        function, shared = unpacked_run(run, _tensors(arrays), late_tensors)
        result = function(unpacked(content), shared, lambda: steps.append(None))
    return result if rank == 0 else None, len(steps), str(_environment(needs)["device_name"])


def _tensors(arrays: Sequence[np.ndarray]) -> Tensors:
    """Of arrays in memory that the processes of a machine share, and that none of them writes to."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return tuple(torch.from_numpy(array) for array in arrays)


def _environment(needs: Needs) -> Mapping[str, Any]:
    """Ray lets a task see no other GPU than its own."""
    return environment(find_device("cuda" if needs.n_gpus else "cpu"))


def _versions() -> Mapping[str, str | None]:
    """Of what decides the numbers, on this machine."""
    return {"hba-augment": VERSION, "torch": version_of("torch")}


def check_versions(expected: Mapping[str, str | None]) -> None:
    """RunError where this machine's versions differ from those of the machine that asks."""
    if (found := _versions()) != expected:
        text = f"{dict(found)} (where it was started {dict(expected)})"
        raise RunError(f"all machines of a cluster need the same versions, but {socket.gethostname()} has {text}")


def _free_address() -> str:
    """Of this machine."""
    import ray

    with socket.socket() as found:
        found.bind(("", 0))
        return f"tcp://{ray.util.get_node_ip_address()}:{found.getsockname()[1]}"


def _send_own_modules() -> None:
    """Pickle by value what modules define that are not installed, because another machine would not find them.

    cloudpickle sends the script itself, `__main__`, by value anyway, and with a package all its modules.
    """
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__file__", None)
        if "." in name or name in ("__main__", "hba") or not isinstance(file, str):
            continue
        path = Path(file).resolve()
        is_installed = {"site-packages", "dist-packages"} & set(path.parts)
        if not (is_installed or path.is_relative_to(Path(sysconfig.get_path("stdlib")).resolve())):
            cloudpickle.register_pickle_by_value(module)
