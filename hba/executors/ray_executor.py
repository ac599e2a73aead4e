"""Tasks on the machines of a Ray cluster: what a lost machine was doing is done again on another."""

import contextlib
import socket
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch

from hba.distributed.collectives import joined, process_group
from hba.distributed.process_info import GONE, is_first
from hba.errors import ClusterWarning, RunError
from hba.executors.cluster import RETRIES, Cluster, Needs, lost
from hba.executors.executor import (
    NOTHING_SHARED,
    Executor,
    Shared,
    TaskFunction,
    Tensors,
    ignore_steps,
    packed_run,
    packed_task,
    unpacked,
    unpacked_run,
)
from hba.utils.devices import find_device
from hba.utils.provenance import VERSION, environment, version_of
from hba.utils.text import counted, first_of

SECONDS_BETWEEN_LOOKS = 0.5
"""At the tasks, and between two reports of one task."""
SECONDS_TO_END = 30
"""For the other processes of a task, once one has ended in an error: theirs may say more."""

T = TypeVar("T")


class RayExecutor(Executor):
    """Runs one task at a time on each GPU of a cluster, or on each CPU; or on n_processes of them, which share it."""

    def __init__(self, cluster: Cluster, needs: Needs, n_processes: int = 1) -> None:
        self.cluster, self.needs, self._n_processes = cluster, needs, n_processes
        super().__init__(torch.device("cuda" if needs.n_gpus else "cpu"), self._n_at_once())

    def _n_at_once(self) -> int:
        """With the machines that are there now."""
        return max(1, self.cluster.places(self.needs) // self.n_processes)

    @property
    def n_threads(self) -> int:
        return self.needs.n_cpus

    @property
    def n_processes(self) -> int:
        return self._n_processes

    @property
    def description(self) -> str:
        return f"{self.device} of {counted(len(self.cluster.machines()), 'machine')}"

    def environment(self) -> Mapping[str, Any]:
        """Of the first machine that answers."""
        several = {"n_processes": self.n_processes} if self.n_processes > 1 else {}
        found = self.call(_environment, self.needs)
        return {**found, **several, "machines": len(self.cluster.machines())}

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """See Executor.call."""
        single = RayExecutor(self.cluster, self.needs)
        ((_, found),) = single.run(_call, [(function, arguments)])
        result: T = found
        return result

    def run(
        self,
        function: TaskFunction,
        tasks: Sequence[Any],
        shared: Shared = NOTHING_SHARED,
        on_step: Callable[[], None] = ignore_steps,
    ) -> Generator[tuple[int, Any]]:
        """See Executor.run. Warns where machines compute on different kinds of devices."""
        if not tasks:
            return
        ray, remedy = self.cluster.ray, "omit cluster"
        contents = [packed_task(task, remedy) for task in tasks]
        arrays = [tensor.cpu().numpy() for tensor in shared.tensors]
        common = ray.put((packed_run(function, shared, remedy), arrays))
        actor = ray.remote(num_cpus=0, scheduling_strategy=_on_this_machine())(ProgressActor).remote()
        monitor = _Monitor(self.cluster, actor, shared.late_tensors, on_step)
        calls = [(content, number, [common], actor) for number, content in enumerate(contents)]
        names: set[str] = set()
        for number, (result, device_name) in self._attempted(calls, monitor.look):
            if names and device_name not in names:
                warnings.warn(
                    f"tasks ran on different kinds of devices ({first_of([*names, device_name])}), which round "
                    "otherwise: results may differ a little by where they were computed",
                    ClusterWarning,
                    stacklevel=2,
                )
            names.add(device_name)
            yield number, result

    def _attempted(self, calls: Sequence[tuple[Any, ...]], look: Callable[[], None]) -> Iterator[tuple[int, Any]]:
        """The number and the result of each call, as they end; a call whose processes are lost is begun again."""
        waiting, running, has_warned = deque(range(len(calls))), dict[int, _Attempt](), False
        n_lost = [0] * len(calls)
        try:
            while waiting or running:
                while waiting and len(running) < self._n_at_once():
                    number = waiting.popleft()
                    running[number] = _Attempt(self, calls[number])
                pending = [process for attempt in running.values() for process in attempt.pending]
                self.cluster.ray.wait(pending, num_returns=1, timeout=SECONDS_BETWEEN_LOOKS)
                self.cluster.explained(look)
                has_warned = has_warned or self._warns_of_no_room()
                ended = {number: attempt.errors() for number, attempt in running.items() if attempt.has_ended()}
                # Errors last, so that what ended at the same time is kept.
                for number in sorted(ended, key=lambda one: len(ended[one])):
                    attempt = running[number]
                    if not ended[number]:
                        result = self.cluster.explained(attempt.result)
                    running.pop(number).end()
                    if not ended[number]:
                        yield number, result
                        continue
                    check_can_begin_again(self, ended[number][0], n_lost[number])
                    n_lost[number] += 1
                    waiting.appendleft(number)
        finally:
            for attempt in running.values():
                attempt.end()

    def _warns_of_no_room(self) -> bool:
        """Whether the machines that are left have no room for a task, which is then warned of."""
        if self.cluster.places(self.needs) >= self.n_processes:
            return False
        times = f"{self.n_processes} times " if self.n_processes > 1 else ""
        warnings.warn(
            f"the cluster does not have {times}{counted(self.needs.n_cpus, 'CPU')} and "
            f"{counted(self.needs.n_gpus, 'GPU')} now; waiting for a machine, and what has ended is kept",
            ClusterWarning,
            stacklevel=2,
        )
        return True


class _Attempt:
    """The processes of one task, from their start to their end."""

    def __init__(self, executor: RayExecutor, arguments: tuple[Any, ...]) -> None:
        self.cluster, self.failed_at, self.room = executor.cluster, 0.0, None
        n, needs = executor.n_processes, executor.needs
        # A process that had a GPU does one task only: it would keep the GPU that it had first.
        options: dict[str, Any] = {"num_cpus": needs.n_cpus, "num_gpus": needs.n_gpus, "retry_exceptions": False}
        options |= {"max_calls": 1} if needs.n_gpus else {}
        remote = self.cluster.ray.remote
        if n == 1:
            start = remote(**options, max_retries=RETRIES)(run_task)
            self.processes = [start.remote(_versions(), sys.path, needs, 0, 1, None, *arguments)]
        else:
            from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

            wanted = {"CPU": needs.n_cpus, **({"GPU": needs.n_gpus} if needs.n_gpus else {})}
            # The room for all processes is reserved at once.
            self.room = self.cluster.ray.util.placement_group([wanted] * n, strategy="PACK")
            places = [PlacementGroupSchedulingStrategy(self.room, placement_group_bundle_index=i) for i in range(n)]
            address = remote(**options, max_retries=0, scheduling_strategy=places[0])(_free_address).remote()
            self.processes = [
                remote(**options, max_retries=0, scheduling_strategy=place)(run_task).remote(
                    _versions(), sys.path, needs, rank, n, address, *arguments
                )
                for rank, place in enumerate(places)
            ]
        self.pending = list(self.processes)

    def has_ended(self) -> bool:
        """Whether all processes have, or one in an error some time ago."""
        done, self.pending = self.cluster.ray.wait(self.processes, num_returns=len(self.processes), timeout=0)
        if not self.pending:
            return True
        if not self.failed_at and any(self.cluster.error_of(one) is not None for one in done):
            self.failed_at = time.monotonic()
        return bool(self.failed_at) and time.monotonic() - self.failed_at > SECONDS_TO_END

    def errors(self) -> list[Exception]:
        """Of the processes that have ended, the most telling first: lost ones make others fail, which know no cause."""
        done, _ = self.cluster.ray.wait(self.processes, num_returns=len(self.processes), timeout=0)
        found = [error for one in done if (error := self.cluster.error_of(one)) is not None]
        return sorted(found, key=lambda one: (str(getattr(one, "cause", "")) == GONE, not self.cluster.is_lost(one)))

    def result(self) -> Any:
        return self.cluster.ray.get(self.processes[0])

    def end(self) -> None:
        for process in self.processes:
            with contextlib.suppress(self.cluster.ray.exceptions.RayError):
                self.cluster.ray.cancel(process, force=True)
        if self.room is not None:
            with contextlib.suppress(self.cluster.ray.exceptions.RayError):
                self.cluster.ray.util.remove_placement_group(self.room)


def check_can_begin_again(executor: RayExecutor, error: Exception, n_lost: int) -> None:
    """Raise an error that is no loss, and a loss too many. n_lost: how often the task was lost before.

    Ray itself begins a task of one process again.
    """
    cluster = executor.cluster
    is_lost = cluster.is_lost(error) or str(getattr(error, "cause", "")) == GONE
    if executor.n_processes > 1 and is_lost and n_lost < RETRIES:
        return
    if executor.n_processes > 1 and is_lost:
        raise lost(error)

    def again() -> None:
        raise error

    cluster.explained(again)


class ProgressActor:
    """An actor between the tasks and the process that gives them out."""

    def __init__(self) -> None:
        self.steps: dict[int, int] = {}
        self.is_wanted = False
        self.late: list[Any] | None = None

    def report(self, number: int, n_steps: int) -> None:
        """A task that is begun again reports fewer steps than before."""
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


@dataclass
class _Monitor:
    """Reports steps, and makes the late tensors when a task asks for them."""

    cluster: Cluster
    actor: Any
    late_tensors: Callable[[], Tensors]
    on_step: Callable[[], None]
    n_reported: int = 0

    def look(self) -> None:
        ray = self.cluster.ray
        n_steps, is_wanted = ray.get(self.actor.state.remote())
        for _ in range(n_steps - self.n_reported):
            self.n_reported += 1
            self.on_step()
        if is_wanted:
            ray.get(self.actor.provide.remote([ray.put([tensor.cpu().numpy() for tensor in self.late_tensors()])]))


def _on_this_machine() -> Any:
    """So that the actor is lost only where the run is lost too."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)


def run_task(
    expected: Mapping[str, str | None],
    paths: Sequence[str],
    needs: Needs,
    rank: int,
    size: int,
    address: str | None,
    content: bytes,
    number: int,
    common: list[Any],
    actor: Any,
) -> tuple[Any, str] | None:
    """On a machine of the cluster: the result of a task, and the name of its device; None but from the first process.

    expected, paths: the versions and sys.path of the machine that asks. address: where the processes of the task meet.
    common: a reference.
    """
    import ray

    _check_versions(expected)
    sys.path += [path for path in paths if path not in sys.path]
    torch.set_num_threads(needs.n_cpus)
    with contextlib.ExitStack() as stack:
        if size > 1:
            backend = "cpu:gloo,cuda:nccl" if needs.n_gpus else "gloo"
            unfound = "the processes of this task do not find each other"
            stack.enter_context(process_group(backend, unfound, init_method=address, rank=rank, world_size=size))
            stack.enter_context(joined())
        run, arrays = ray.get(common[0])
        # All processes of a task do the same steps.
        reporter = ProgressReporter(actor, number, is_first())
        function, shared = unpacked_run(run, _tensors(arrays), reporter.late_tensors)
        result = function(unpacked(content), shared, reporter.step_done)
        reporter.send_and_wait()
    return (result, str(_environment(needs)["device_name"])) if rank == 0 else None


@dataclass
class ProgressReporter:
    """Reports the steps of a task now and then, and fetches the late tensors."""

    actor: Any
    number: int
    speaks: bool
    n_steps: int = 0
    last: float = field(default=0.0)

    def step_done(self) -> None:
        self.n_steps += 1
        if time.monotonic() - self.last > SECONDS_BETWEEN_LOOKS:
            self._send()

    def _send(self) -> Any:
        self.last = time.monotonic()
        return self.actor.report.remote(self.number, self.n_steps) if self.speaks else None

    def send_and_wait(self) -> None:
        """So that the last steps are known before what follows them."""
        import ray

        if (sent := self._send()) is not None:
            ray.get(sent)

    def late_tensors(self) -> Tensors:
        import ray

        self.send_and_wait()
        while (found := ray.get(self.actor.request.remote())) is None:
            time.sleep(SECONDS_BETWEEN_LOOKS / 5)
        return _tensors(ray.get(found[0]))


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


def _check_versions(expected: Mapping[str, str | None]) -> None:
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
