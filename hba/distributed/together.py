"""Several processes of a Ray cluster that make one computation together, on one machine or on several."""

import contextlib
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from hba.distributed.cluster import RETRIES, SECONDS_BETWEEN_LOOKS, Cluster, Needs, Room, do_alike, lost, versions
from hba.distributed.collectives import joined, process_group
from hba.distributed.process_info import GONE
from hba.errors import HbaError, RunError

SECONDS_TO_END = 30
"""For the others, once one of the processes has ended in an error: theirs may say more."""


class _Group:
    """The processes of one computation, from their start to their end. The room for all is kept free at once."""

    def __init__(
        self, cluster: Cluster, function: Callable[..., Any], arguments: tuple[Any, ...], needs: Needs, n: int
    ) -> None:
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        self.cluster, self.begun_to_fail = cluster, 0.0
        wanted = {"CPU": needs.n_cpus, **({"GPU": needs.n_gpus} if needs.n_gpus else {})}
        self.room = cluster.ray.util.placement_group([wanted] * n, strategy="PACK")

        def at(place: int) -> Any:
            return PlacementGroupSchedulingStrategy(self.room, placement_group_bundle_index=place)

        # The others wait for it by themselves.
        address = cluster.task(_free_address, needs, max_retries=0, scheduling_strategy=at(0)).remote()
        self.processes = [
            cluster.task(do_alike, needs, max_retries=0, scheduling_strategy=at(rank)).remote(
                _take_part, versions(), rank, n, address, needs, function, arguments
            )
            for rank in range(n)
        ]

    def has_ended(self) -> bool:
        """All have, or one in an error some time ago."""
        done, waiting = self.cluster.ray.wait(self.processes, num_returns=len(self.processes), timeout=0)
        if not waiting:
            return True
        if not self.begun_to_fail and any(self.cluster.error_of(one) is not None for one in done):
            self.begun_to_fail = time.monotonic()
        return bool(self.begun_to_fail) and time.monotonic() - self.begun_to_fail > SECONDS_TO_END

    def errors(self) -> list[Exception]:
        """Of those that have ended, what says most first: lost ones make others fail, which then know nothing else."""
        done, _ = self.cluster.ray.wait(self.processes, num_returns=len(self.processes), timeout=0)
        found = [error for one in done if (error := self.cluster.error_of(one)) is not None]
        causes = [error if self.cluster.is_lost(error) else getattr(error, "cause", error) for error in found]
        return sorted(causes, key=lambda one: (str(one) == GONE, not self.cluster.is_lost(one)))

    def end(self) -> None:
        self.cluster.end(self.processes)
        with contextlib.suppress(self.cluster.ray.exceptions.RayError):
            self.cluster.ray.util.remove_placement_group(self.room)


def together(
    cluster: Cluster,
    function: Callable[..., Any],
    tasks: Sequence[tuple[Any, ...]],
    needs: Needs,
    n_processes: int,
    meanwhile: Callable[[], None] = lambda: None,
) -> Iterator[tuple[int, Any]]:
    """As Cluster.results, but each task is made by so many processes, all of which call the function; the first one's
    result is taken. Where a process is lost, all of its group begin again.
    """
    waiting, at_work = deque(range(len(tasks))), dict[int, _Group]()
    n_lost = dict.fromkeys(waiting, 0)
    at_once = max(1, cluster.places(needs) // n_processes)
    room = Room(cluster, needs, n_processes)
    try:
        while waiting or at_work:
            while waiting and len(at_work) < at_once:
                number = waiting.popleft()
                at_work[number] = _Group(cluster, function, tasks[number], needs, n_processes)
            every = [process for group in at_work.values() for process in group.processes]
            cluster.ray.wait(every, num_returns=len(every), timeout=SECONDS_BETWEEN_LOOKS)
            cluster.explained(meanwhile)
            room.look()
            for number, group in [one for one in at_work.items() if one[1].has_ended()]:
                errors = group.errors()
                if not errors:
                    result = cluster.result_of(group.processes[0])
                del at_work[number]
                group.end()
                if not errors:
                    yield number, result
                    continue
                _check_can_begin_again(cluster, errors[0], n_lost[number])
                n_lost[number] += 1
                waiting.appendleft(number)
    finally:
        for group in at_work.values():
            group.end()


def _check_can_begin_again(cluster: Cluster, error: Exception, n_lost: int) -> None:
    """Raise an error that is no loss, and a loss too many. n_lost: how often its group was lost before."""
    is_lost = isinstance(error, cluster.ray.exceptions.RayError) and cluster.is_lost(error)
    if not is_lost and not (isinstance(error, RunError) and str(error) == GONE):
        if isinstance(error, HbaError):
            raise error
        raise RuntimeError("a process of the cluster has failed") from error
    if n_lost == RETRIES:
        raise lost(error)


def _free_address() -> str:
    """Of this machine."""
    import ray

    with socket.socket() as found:
        found.bind(("", 0))
        return f"tcp://{ray.util.get_node_ip_address()}:{found.getsockname()[1]}"


def _take_part(
    rank: int, size: int, address: str, needs: Needs, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> Any:
    torch.set_num_threads(needs.n_cpus)
    backend = "cpu:gloo,cuda:nccl" if needs.n_gpus else "gloo"
    unfound = "the processes of this training do not find each other"
    with process_group(backend, unfound, init_method=address, rank=rank, world_size=size), joined():
        made = function(*arguments)
    # What the others made is the same, and need not be sent.
    return made if rank == 0 else None
