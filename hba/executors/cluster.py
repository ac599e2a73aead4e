"""A Ray cluster: connecting to it, what its machines have room for, and its errors in words."""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import NamedTuple, TypeVar

from hba.errors import HbaError, RunError, SettingsError
from hba.utils.files import reason_of
from hba.utils.imports import import_extra

RETRIES = 5
"""How often a task is begun again that has lost its machine or its process. An error of its own is final."""
SECONDS_TO_ANSWER = 10

T = TypeVar("T")


class Needs(NamedTuple):
    """What a process of a task has for itself."""

    n_cpus: int
    n_gpus: int


class Machine(NamedTuple):
    name: str
    n_cpus: int
    n_gpus: int

    def places(self, needs: Needs) -> int:
        """How many such processes it can run at a time."""
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

    def places(self, needs: Needs) -> int:
        """How many such processes all machines can run at a time."""
        return sum(one.places(needs) for one in self.machines())

    def needs(self, device: str) -> Needs:
        """What one process needs on the device of that name: with `auto` a GPU where any machine has one, else a CPU.

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

    def error_of(self, reference: object) -> Exception | None:
        """What a task that has ended raised, or what became of it."""
        try:
            self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            return error
        return None

    def is_lost(self, error: Exception) -> bool:
        """Whether a task's process or machine is gone: it has not raised the error itself."""
        known = self.ray.exceptions
        return isinstance(error, known.RayError) and not isinstance(error, known.RayTaskError)

    def explained(self, ask: Callable[[], T]) -> T:
        """Ask something of the cluster; its errors become HbaErrors."""
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
    """The error for a task that was lost too often."""
    return RunError(
        f"the cluster has lost a task {RETRIES + 1} times, the last time so: {reason_of(error)}; what has ended is kept"
    )


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
