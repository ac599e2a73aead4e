"""What all executors do, and the one that runs tasks one after the other in this process."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from hba.distributed.process_info import size
from hba.utils.provenance import environment

T = TypeVar("T")
Tensors = tuple[Tensor, ...]
TaskFunction = Callable[[Any, Any, Callable[[], None]], Any]
"""Called with a task, with what all tasks share, and with a function to be called after every step."""


def _value_itself(value: Any, tensors: Tensors, late_tensors: Callable[[], Tensors]) -> Any:
    return value


@dataclass(frozen=True)
class Shared:
    """What all tasks of a run have in common.

    value: anything that can be pickled, where the tasks run elsewhere. tensors: on the CPU; the processes of a machine
    share their memory. late_tensors: called here, once, when the first task asks for them. prepare: a function of a
    module that is called once in each process with the value, the tensors and a function that fetches the late
    tensors; what it returns is handed to every task.
    """

    value: Any = None
    tensors: Tensors = ()
    late_tensors: Callable[[], Tensors] = tuple
    prepare: Callable[[Any, Tensors, Callable[[], Tensors]], Any] = _value_itself


NOTHING_SHARED = Shared()


def ignore_steps() -> None:
    """The default for a callback after every step."""


class Executor(Protocol):
    """Runs tasks. device: of each task. n_jobs: tasks at a time. n_threads: of each process of a task."""

    @property
    def device(self) -> torch.device: ...

    @property
    def n_jobs(self) -> int: ...

    @property
    def n_threads(self) -> int: ...

    @property
    def n_processes(self) -> int:
        """How many processes share each task."""
        ...

    @property
    def description(self) -> str:
        """The device in words, for a plan."""
        ...

    def environment(self) -> Mapping[str, Any]:
        """The hardware and the versions that the results come from."""
        ...

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """What a function of a module returns where the tasks run."""
        ...

    def run(
        self,
        function: TaskFunction,
        tasks: Sequence[Any],
        shared: Shared = NOTHING_SHARED,
        on_step: Callable[[], None] = ignore_steps,
    ) -> Generator[tuple[int, Any]]:
        """Yield the number and the result of each task, in the order in which they end.

        on_step is called here for each step of any task. All processes have ended when the generator has, or is closed.
        Raises what a task raised, after the results that arrived at the same time, and RunError where a process or
        machine is lost for good.
        """
        ...


@dataclass(frozen=True)
class SerialExecutor:
    """Runs one task after the other. All processes of a torchrun computation share each task."""

    device: torch.device
    n_jobs: int = 1

    @property
    def n_threads(self) -> int:
        return torch.get_num_threads()

    @property
    def n_processes(self) -> int:
        return size()

    @property
    def description(self) -> str:
        return str(self.device)

    def environment(self) -> Mapping[str, Any]:
        return environment(self.device) | ({"n_processes": size()} if size() > 1 else {})

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        return function(*arguments)

    def run(
        self,
        function: TaskFunction,
        tasks: Sequence[Any],
        shared: Shared = NOTHING_SHARED,
        on_step: Callable[[], None] = ignore_steps,
    ) -> Generator[tuple[int, Any]]:
        """See Executor.run. Nothing is pickled."""
        prepared = shared.prepare(shared.value, shared.tensors, shared.late_tensors)
        for number, task in enumerate(tasks):
            yield number, function(task, prepared, on_step)
