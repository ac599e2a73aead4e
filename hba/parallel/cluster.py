"""Machines that Ray has joined into a cluster, and tasks on them: what a lost machine was doing is done again."""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

from hba.errors import HbaError, RunError, SettingsError
from hba.runtime.extras import import_extra
from hba.runtime.files import reason_of
from hba.runtime.wording import counted

RETRIES = 5
"""How often a task is begun again that has lost its machine or its process. An error of its own is final."""
SECONDS_BETWEEN_LOOKS = 0.5
SECONDS_TO_ANSWER = 10


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
        the HbaError of a task, and RunError for one that was lost again and again.
        """
        remote = self.ray.remote(
            num_cpus=needs.n_cpus, num_gpus=needs.n_gpus, max_retries=RETRIES, retry_exceptions=False
        )(function)
        waiting = {remote.remote(*arguments): number for number, arguments in enumerate(tasks)}
        try:
            while waiting:
                done, _ = self.ray.wait(list(waiting), num_returns=1, timeout=SECONDS_BETWEEN_LOOKS)
                meanwhile()
                for reference in done:
                    yield waiting.pop(reference), self._result(reference)
        finally:
            for reference in waiting:
                with contextlib.suppress(self.ray.exceptions.RayError):
                    self.ray.cancel(reference, force=True)

    def _result(self, reference: Any) -> Any:
        try:
            return self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, HbaError):
                raise error.cause from None
            raise
        except self.ray.exceptions.RayError as error:
            raise RunError(
                f"the cluster has lost a task {RETRIES + 1} times, the last time so: {reason_of(error)}; what has "
                "ended is kept"
            ) from None


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
