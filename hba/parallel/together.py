"""Several processes of a Ray cluster that make one computation together, on one machine or on several."""

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from hba.errors import HbaError, RunError
from hba.parallel.cluster import RETRIES, Needs
from hba.parallel.processes import TIMEOUT, explained, joined

SECONDS_TO_END = 30
"""For the others, once one of the processes has ended in an error: theirs may say more."""


class _Lost(Exception):
    """A process, or its machine."""


class _Meeting(NamedTuple):
    """Where the processes find each other."""

    address: str
    size: int


def together(function: Callable[..., Any], arguments: tuple[Any, ...], needs: Needs, n_processes: int) -> Any:
    """What the function makes in the first of n processes, each with what it needs; all of them call it.

    To be called in a task of the cluster that needs nothing itself. Where a process is lost, all begin again. Raises
    the HbaError of any of them.
    """
    for _ in range(RETRIES):
        with contextlib.suppress(_Lost):
            return _once(function, arguments, needs, n_processes)
    return _once(function, arguments, needs, n_processes)


def _once(function: Callable[..., Any], arguments: tuple[Any, ...], needs: Needs, n_processes: int) -> Any:
    import ray
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    with _room(needs, n_processes) as room:

        def task(of: Callable[..., Any], place: int) -> Any:
            options = {"num_cpus": needs.n_cpus, "num_gpus": needs.n_gpus, "max_retries": 0}
            where = PlacementGroupSchedulingStrategy(room, placement_group_bundle_index=place)
            return ray.remote(of).options(**options, scheduling_strategy=where)

        try:
            address = ray.get(task(_free_address, 0).remote())
        except ray.exceptions.RayError as error:
            raise _Lost from error
        meeting = _Meeting(address, n_processes)
        processes = [
            task(_take_part, rank).remote(rank, meeting, needs, function, arguments) for rank in range(n_processes)
        ]
        try:
            _wait_for_all(processes)
            return _result(processes)
        finally:
            for process in processes:
                with contextlib.suppress(ray.exceptions.RayError):
                    ray.cancel(process, force=True)


@contextlib.contextmanager
def _room(needs: Needs, n_processes: int) -> Iterator[Any]:
    """Kept free for all processes at once, as near to each other as can be."""
    import ray

    wanted = {"CPU": needs.n_cpus, **({"GPU": needs.n_gpus} if needs.n_gpus else {})}
    room = ray.util.placement_group([wanted] * n_processes, strategy="PACK")
    try:
        ray.get(room.ready())
        yield room
    finally:
        ray.util.remove_placement_group(room)


def _wait_for_all(processes: list[Any]) -> None:
    """Or until one has ended in an error, and the others have had some time."""
    import ray

    waiting, until = processes, float("inf")
    while waiting and time.monotonic() < until:
        done, waiting = ray.wait(waiting, timeout=1)
        if until == float("inf") and any(_error_of(process) is not None for process in done):
            until = time.monotonic() + SECONDS_TO_END


def _error_of(process: Any) -> Exception | None:
    import ray

    try:
        ray.get(process, timeout=0)
    except ray.exceptions.RayError as error:
        return error
    return None


def _result(processes: list[Any]) -> Any:
    """Of the first. A process that was lost makes others fail, so that comes first."""
    import ray

    errors = [error for process in processes if (error := _error_of(process)) is not None]
    causes = [error.cause for error in errors if isinstance(error, ray.exceptions.RayTaskError)]
    if len(causes) < len(errors):
        raise _Lost from errors[0]
    told = sorted((one for one in causes if isinstance(one, HbaError)), key=lambda one: isinstance(one, RunError))
    if told:
        raise told[0]
    if errors:
        raise errors[0]
    return ray.get(processes[0])


def _free_address() -> str:
    """Of this machine."""
    import ray

    with socket.socket() as found:
        found.bind(("", 0))
        return f"tcp://{ray.util.get_node_ip_address()}:{found.getsockname()[1]}"


def _take_part(
    rank: int, meeting: _Meeting, needs: Needs, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> Any:
    torch.set_num_threads(needs.n_cpus)
    backend = "cpu:gloo,cuda:nccl" if needs.n_gpus else "gloo"
    with explained("the processes of this training do not find each other"):
        dist.init_process_group(
            backend, init_method=meeting.address, rank=rank, world_size=meeting.size, timeout=TIMEOUT
        )
    try:
        with joined():
            made = function(*arguments)
        # What the others made is the same, and need not be sent.
        return made if rank == 0 else None
    finally:
        dist.destroy_process_group()
