"""Runs tasks on the machines of a Ray cluster. The tasks of a lost machine start again
on another one.
"""

import contextlib
import os
import pickle
import signal
import socket
import sys
import sysconfig
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import numpy as np
import torch

from hba.errors import HbaError, RunError, SettingsError
from hba.executors.executor import (
    Executor,
    OnStep,
    ProcessExecutor,
    Results,
    SerialExecutor,
    Shared,
    TaskFunction,
    packed,
    packed_run,
    results_of,
    unpacked_run,
)
from hba.utils.devices import VERSION, environment, find_device, version_of
from hba.utils.files import reason_of
from hba.utils.imports import import_extra
from hba.utils.text import counted

RETRIES = 5
"""How often a task starts again after its machine or process was lost. An error of the
task itself is final.
"""
SECONDS_TO_END = 30
"""Longest wait for canceled tasks to end."""
VERSIONS = {"hba-augment": VERSION, "torch": version_of("torch")}
"""Versions on this machine of the packages that decide the results."""


def check_one_way(jobs: int | None, cluster: str | None) -> None:
    """Check that at most one way to run tasks is requested.

    Raises:
        SettingsError: For several jobs with a cluster, and for less than one job.
    """
    has_both = jobs not in (None, 1) and cluster is not None
    if has_both or (jobs is not None and jobs < 1):
        raise SettingsError(f"give jobs (at least 1, got {jobs}) or cluster, not both")


def executor_for(device: str, n_jobs: int, ray: ModuleType | None) -> Executor:
    """The executor for a device or a cluster.

    Args:
        device: Its name.
        n_jobs: Number of tasks at a time on this machine.
        ray: The library, connected to a cluster; None without one.
    """
    if ray is not None:
        return RayExecutor(ray, device)
    torch_device = find_device(device)
    return (
        ProcessExecutor(torch_device, n_jobs)
        if n_jobs > 1
        else SerialExecutor(torch_device)
    )


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[ModuleType | None]:
    """Connect the library Ray to a running cluster, and leave it at the end.

    A program that is connected already stays so, whatever the address.

    Args:
        address: Of the cluster. `auto` finds that of this machine; None connects to
            none.

    Raises:
        SettingsError: If Ray is not installed.
        RunError: If no cluster answers.
    """
    if address is None:
        yield None
        return
    # Ray would report usage statistics, and ask for permission in the middle of our
    # output.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = import_extra("ray", "cluster", "a cluster")
    if ray.is_initialized():
        yield ray
        return
    try:
        if address != "auto":
            # Without this check, Ray would try for many minutes.
            host, _, port = address.rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        # Ray sets a handler of its own, which would end this process without keeping
        # anything.
        before = signal.getsignal(signal.SIGTERM)
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)
    except (OSError, OverflowError, RuntimeError, ValueError, AssertionError) as error:
        start = (
            "start one with `ray start --head`, and further machines with `ray start"
            " --address HEAD:6379`"
        )
        problem = (
            f"no Ray cluster answers at {address} ({reason_of(error)}); {start}, and"
            " give auto or HOST:PORT"
        )
        raise RunError(problem) from None
    try:
        yield ray
    finally:
        ray.shutdown()


def needed_by_task(device: str, machines: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The numbers of CPUs and GPUs that a task needs.

    Args:
        device: With `auto`, a task needs a GPU if any machine has one, else a CPU.
        machines: The numbers of CPUs and GPUs of each, whose CPUs are divided among its
            GPUs.

    Raises:
        SettingsError: If none has such a device.
    """
    with_gpus = [(n_cpus, n_gpus) for n_cpus, n_gpus in machines if n_cpus and n_gpus]
    if device.startswith(("cuda:", "mps")):
        raise SettingsError(
            "device must be auto, cpu or cuda on a cluster, which chooses the GPU, got"
            f" {device!r}"
        )
    if device != "cpu" and with_gpus:
        return max(1, min(n_cpus // n_gpus for n_cpus, n_gpus in with_gpus)), 1
    if device == "cuda" or not any(n_cpus for n_cpus, _ in machines):
        processor = "GPU" if device == "cuda" else "CPU"
        raise SettingsError(
            f"no machine of the cluster has a {processor}, of {len(machines)}; choose"
            " another device"
        )
    return 1, 0


class RayExecutor(Executor):
    """Runs one task at a time on each GPU of a cluster, or on each CPU."""

    def __init__(self, ray: ModuleType, device: str) -> None:
        resources = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        machines = [
            (int(amounts.get("CPU", 0)), int(amounts.get("GPU", 0)))
            for amounts in resources
        ]
        self.ray = ray
        self.n_machines = len(machines)
        self.n_cpus, self.n_gpus = needed_by_task(device, machines)
        n_jobs = sum(n_gpus if self.n_gpus else n_cpus for n_cpus, n_gpus in machines)
        super().__init__(torch.device("cuda" if self.n_gpus else "cpu"), n_jobs)

    @property
    def n_threads(self) -> int:
        return self.n_cpus

    @property
    def description(self) -> str:
        return f"{self.device} of {counted(self.n_machines, 'machine')}"

    def environment(self) -> Mapping[str, Any]:
        """The environment of the first machine that answers."""
        ((_, first_environment),) = self.run(
            _environment, [self.device.type], Shared(), lambda: None
        )
        return {**first_environment, "machines": self.n_machines}

    def run(
        self,
        function: TaskFunction,
        tasks: Sequence[Any],
        shared: Shared,
        on_step: OnStep,
    ) -> Results:
        ray = self.ray
        _send_own_modules()
        contents = [packed(task) for task in tasks]
        common = ray.put(
            (
                packed_run(function, shared),
                [tensor.cpu().numpy() for tensor in shared.tensors],
            )
        )
        start = ray.remote(
            num_cpus=self.n_cpus, num_gpus=self.n_gpus, max_retries=RETRIES
        )(_run_task)
        refs = [
            start.remote(VERSIONS, self.n_cpus, content, common) for content in contents
        ]
        try:
            for number, (result, n_steps) in results_of(
                {ref.future(): number for number, ref in enumerate(refs)}
            ):
                for _ in range(n_steps):
                    on_step()
                yield number, result
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, ImportError) or "failed to import" in str(error):
                reason = str(error).strip().rpartition("\n")[2]
                raise RunError(
                    f"a machine of the cluster lacks a package ({reason}); install it"
                    " on all"
                ) from None
            raise error.cause if isinstance(error.cause, HbaError) else error from None
        except ray.exceptions.RayError as error:
            lost = (
                f"the cluster has lost a task {RETRIES + 1} times, the last time"
                f" because of: {reason_of(error)}"
            )
            raise RunError(f"{lost}; finished tasks are kept") from None
        finally:
            for ref in refs:
                ray.cancel(ref, force=True)
            ray.wait(refs, num_returns=len(refs), timeout=SECONDS_TO_END)


def _run_task(
    versions: Mapping[str, str | None],
    n_threads: int,
    content: bytes,
    common: tuple[bytes, Sequence[np.ndarray]],
) -> tuple[Any, int]:
    """On a machine of the cluster: the result of a task and its number of steps.

    Args:
        versions: Of the machine that started the task.
        n_threads: Number of PyTorch's threads.
        content: The packed task.
        common: The result of packed_run, and arrays in memory that the processes of a
            machine share, which none of them writes to.

    Raises:
        RunError: If this machine has other versions.
    """
    if versions != VERSIONS:
        versions_here = f"{VERSIONS} (where it was started {versions})"
        raise RunError(
            "all machines of a cluster need the same versions, but"
            f" {socket.gethostname()} has {versions_here}"
        )
    torch.set_num_threads(n_threads)
    steps: list[None] = []
    function, shared = unpacked_run(common[0], tuple(map(torch.from_numpy, common[1])))
    return function(pickle.loads(content), shared, lambda: steps.append(None)), len(
        steps
    )


def _environment(device: str, shared: None, step_done: OnStep) -> Mapping[str, Any]:
    """A task. Ray lets it see its own GPU only."""
    return environment(find_device(device))


def _send_own_modules() -> None:
    """Pickle modules that are not installed by value, because another machine would not
    find them.

    cloudpickle sends the script itself, `__main__`, by value anyway. With a package, it
    sends all modules of it.
    """
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__file__", None)
        if "." in name or name in ("__main__", "hba") or not isinstance(file, str):
            continue
        path = Path(file).resolve()
        is_installed = {"site-packages", "dist-packages"} & set(path.parts)
        if not (
            is_installed
            or path.is_relative_to(Path(sysconfig.get_path("stdlib")).resolve())
        ):
            cloudpickle.register_pickle_by_value(module)
