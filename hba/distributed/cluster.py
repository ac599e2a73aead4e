"""Machines that Ray has joined into a cluster, and tasks on them: what a lost machine was doing is done again."""

import contextlib
import os
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from hba.errors import ClusterWarning, HbaError, RunError, SettingsError
from hba.utils.files import reason_of
from hba.utils.imports import import_extra
from hba.utils.provenance import version_of
from hba.utils.text import counted
from hba.utils.version import VERSION

RETRIES = 5
"""How often a task is begun again that has lost its machine or its process. An error of its own is final."""
SECONDS_BETWEEN_LOOKS = 0.5
SECONDS_TO_ANSWER = 10

T = TypeVar("T")


class Needs(NamedTuple):
    """What a task has for itself."""

    n_cpus: int
    n_gpus: int


class Machine(NamedTuple):
    name: str
    n_cpus: int
    n_gpus: int

    def places(self, needs: Needs) -> int:
        """How many such tasks it can do at a time."""
        by_gpus = self.n_gpus // needs.n_gpus if needs.n_gpus else self.n_cpus
        return min(self.n_cpus // max(1, needs.n_cpus), by_gpus)


@dataclass(frozen=True)
class Cluster:
    """ray: the library, which is connected."""

    ray: ModuleType

    def machines(self) -> tuple[Machine, ...]:
        """Those that answer now."""
        found = [one for one in self.ray.nodes() if one["Alive"]]
        sizes = [(one["NodeManagerHostname"], one["Resources"]) for one in found]
        return tuple(Machine(name, int(has.get("CPU", 0)), int(has.get("GPU", 0))) for name, has in sizes)

    @property
    def told(self) -> str:
        return counted(len(self.machines()), "machine")

    def needs(self, device: str) -> Needs:
        """Of a training, on the device of that name: with `auto` a GPU where any machine has one, else one CPU.

        The CPUs of a machine are shared out among its GPUs. SettingsError where no machine has what is asked.
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

    def places(self, needs: Needs) -> int:
        """Tasks at a time."""
        return max(1, sum(one.places(needs) for one in self.machines()))

    def results(
        self,
        function: Callable[..., Any],
        tasks: Sequence[tuple[Any, ...]],
        needs: Needs,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Iterator[tuple[int, Any]]:
        """The number of each task, and what the function makes of its arguments, in the order in which they end.

        meanwhile: called about twice a second. Tasks that have not ended when the iterator is closed are ended. Raises
        the HbaError of a task, once those that ended beside it are told, and RunError for one that was lost again and
        again, for a machine with other versions, and for a cluster that fails.
        """
        remote = self.task(do_alike, needs, max_retries=RETRIES)
        mine = versions()
        waiting = {remote.remote(function, mine, *arguments): number for number, arguments in enumerate(tasks)}
        room = Room(self, needs)
        try:
            while waiting:
                self.ray.wait(list(waiting), num_returns=1, timeout=SECONDS_BETWEEN_LOOKS)
                done, _ = self.ray.wait(list(waiting), num_returns=len(waiting), timeout=0)
                self.explained(meanwhile)
                room.look()
                failed = [one for one in done if self.error_of(one) is not None]
                for reference in (*(one for one in done if one not in failed), *failed):
                    yield waiting.pop(reference), self.result_of(reference)
        finally:
            self.end(waiting)

    def task(self, function: Callable[..., Any], needs: Needs, **options: Any) -> Any:
        """A remote function. A process that had a GPU does one task only: it would keep the GPU that it had first."""
        once = {"max_calls": 1} if needs.n_gpus else {}
        options = {"num_cpus": needs.n_cpus, "num_gpus": needs.n_gpus, "retry_exceptions": False, **once, **options}
        return self.ray.remote(**options)(function)

    def end(self, references: Iterable[Any]) -> None:
        for reference in references:
            with contextlib.suppress(self.ray.exceptions.RayError):
                self.ray.cancel(reference, force=True)

    def error_of(self, reference: Any) -> Exception | None:
        """Of a task that has ended: what it raised, or what became of it."""
        try:
            self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            return error
        return None

    def is_lost(self, error: Exception) -> bool:
        """Whether it is not the task's own error."""
        return not isinstance(error, self.ray.exceptions.RayTaskError)

    def result_of(self, reference: Any) -> Any:
        """Of a task that has ended."""
        return self.explained(lambda: self.ray.get(reference))

    def explained(self, ask: Callable[[], T]) -> T:
        """What is asked of the cluster; errors as HbaErrors."""
        known = self.ray.exceptions
        try:
            return ask()
        except known.RayTaskError as error:
            if isinstance(error.cause, HbaError):
                raise error.cause from None
            if "failed to import" in str(error):
                raise RunError("a machine of the cluster cannot import hba; install it on all, as here") from None
            raise
        except (known.WorkerCrashedError, known.NodeDiedError, known.OutOfMemoryError, known.ObjectLostError) as error:
            raise lost(error) from None
        except known.RayError as error:
            raise RunError(f"the cluster has failed: {reason_of(error)}; what has ended is kept") from None


def lost(error: Exception) -> RunError:
    """What to say of a task that was lost too often."""
    return RunError(
        f"the cluster has lost a task {RETRIES + 1} times, the last time so: {reason_of(error)}; what has ended is kept"
    )


@dataclass
class Room:
    """Says once where the machines that are left have no room for a task of so many processes."""

    cluster: Cluster
    needs: Needs
    n_processes: int = 1
    has_said: bool = False

    def look(self) -> None:
        if self.has_said or sum(one.places(self.needs) for one in self.cluster.machines()) >= self.n_processes:
            return
        self.has_said = True
        times = f"{self.n_processes} times " if self.n_processes > 1 else ""
        warnings.warn(
            f"the cluster does not have {times}{counted(self.needs.n_cpus, 'CPU')} and "
            f"{counted(self.needs.n_gpus, 'GPU')} now; waiting for a machine, and what has ended is kept",
            ClusterWarning,
            stacklevel=2,
        )


def versions() -> Mapping[str, str | None]:
    """Of what decides the numbers, on this machine."""
    return {"hba-augment": VERSION, "torch": version_of("torch")}


def do_alike(function: Callable[..., Any], expected: Mapping[str, str | None], *arguments: Any) -> Any:
    """On a machine of the cluster: what the function makes, where its versions are those of who asks."""
    found = versions()
    if other := [name for name in found if found[name] != expected[name]]:
        told = ", ".join(f"{name} {found[name]} (where it was started {expected[name]})" for name in other)
        raise RunError(f"all machines of a cluster need the same versions, but {socket.gethostname()} has {told}")
    return function(*arguments)


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[Cluster | None]:
    """To a cluster that runs, left at the end; None for no address. `auto` finds the one that this machine is in.

    A program that is connected already stays so, whatever the address. SettingsError where Ray is not installed,
    RunError where no cluster answers.
    """
    if address is None:
        yield None
        return
    # Ray would tell its makers of its use, and ask for permission in the middle of our lines.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = import_extra("ray", "cluster", "a cluster")
    if ray.is_initialized():
        yield Cluster(ray)
        return
    found = os.environ.get("RAY_ADDRESS", address) if address == "auto" else address
    if found != "auto":
        _check_answers(found)
    try:
        with _signals_kept():
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError, TimeoutError, AssertionError) as error:
        raise _no_cluster(found, error) from None
    try:
        yield Cluster(ray)
    finally:
        ray.shutdown()


def _check_answers(address: str) -> None:
    """Ray itself would try for many minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise SettingsError(f"cluster must be auto, or the address HOST:PORT of a Ray cluster, got {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_ANSWER).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from None


def _no_cluster(address: str, error: Exception) -> RunError:
    where = "this machine is in no Ray cluster" if address == "auto" else f"no Ray cluster answers at {address}"
    return RunError(
        f"{where} ({reason_of(error)}); start one by `ray start --head`, and further machines by `ray start --address "
        "HEAD:6379`"
    )


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray sets a handler of its own, which would end this process without keeping anything."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
