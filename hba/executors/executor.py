"""What all executors do, the one that runs tasks one after the other, and how tasks are sent to other processes."""

import contextlib
import pickle
import sys
import sysconfig
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import cloudpickle
import torch
from torch import Tensor

from hba.distributed.process_info import size
from hba.errors import SettingsError
from hba.operations import register_operation, registered_operations
from hba.regularization.groups import register_regularizer, registered_regularizers
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


class Executor:
    """Runs tasks. device: of each task. n_jobs: tasks at a time."""

    def __init__(self, device: torch.device, n_jobs: int = 1) -> None:
        self.device, self.n_jobs = device, n_jobs

    @property
    def n_threads(self) -> int:
        """Of each process of a task."""
        return max(1, torch.get_num_threads() // self.n_jobs)

    @property
    def n_processes(self) -> int:
        """How many processes share each task."""
        return 1

    @property
    def description(self) -> str:
        """The device in words, for a plan."""
        return str(self.device)

    def environment(self) -> Mapping[str, Any]:
        """The hardware and the versions that the results come from."""
        several = {"n_processes": self.n_processes} if self.n_processes > 1 else {}
        return {**environment(self.device), "n_threads": self.n_threads, **several}

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function of a module where the tasks run."""
        return function(*arguments)

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
        raise NotImplementedError


class SerialExecutor(Executor):
    """Runs one task after the other. All processes of a torchrun computation share each task."""

    @property
    def n_threads(self) -> int:
        return torch.get_num_threads()

    @property
    def n_processes(self) -> int:
        return size()

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


STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib")).resolve()
INSTALLED = {"site-packages", "dist-packages"}
"""Folders of installed packages, whichever tool and user installed them."""


def packed(parts: Any, what: str, remedy: str) -> bytes:
    """Pickle the parts for `unpacked`, with the classes and functions that only this process can import.

    Raises SettingsError, in which `what` names the parts and `remedy` says what to do instead, where that fails.
    """
    try:
        with contextlib.suppress(Exception), _by_value(own_modules()):
            return bytes(cloudpickle.dumps(parts))
        # A module may hold what cannot be pickled, such as a lock. Processes with the same paths can import it.
        return bytes(cloudpickle.dumps(parts))
    except Exception as error:
        raise SettingsError(f"{what} cannot be sent to another process ({_reason(error)}); {remedy}") from None


def unpacked(content: bytes) -> Any:
    """The parts that were packed. SettingsError where they need what is not here."""
    try:
        return pickle.loads(content)
    except Exception as error:
        text = f"another process cannot rebuild what was sent to it ({_reason(error)}); omit jobs and cluster"
        raise SettingsError(text) from error


def packed_task(task: Any, remedy: str) -> bytes:
    """A task may have a `name`, which the SettingsError then says."""
    return packed(task, getattr(task, "name", "a task"), remedy)


def packed_run(function: TaskFunction, shared: Shared, remedy: str) -> bytes:
    """What all tasks share, but for tensors, with the operations and regularizers that the user has registered."""
    parts = (function, shared.prepare, shared.value)
    return packed((registered_operations(), registered_regularizers(), parts), "what all tasks share", remedy)


def unpacked_run(content: bytes, tensors: Tensors, late_tensors: Callable[[], Tensors]) -> tuple[TaskFunction, Any]:
    """The function and the prepared value; registers the user's operations and regularizers."""
    operations, regularizers, (function, prepare, value) = unpacked(content)
    for operation in operations:
        register_operation(operation)
    for regularizer in regularizers:
        register_regularizer(regularizer)
    return function, prepare(value, tensors, late_tensors)


def own_modules() -> tuple[ModuleType, ...]:
    """The top-level modules of this process that are not installed, so that another machine would not find them.

    cloudpickle sends the script itself, `__main__`, by value anyway, and with a package all its modules.
    """
    top_level = [sys.modules[name] for name in sorted(sys.modules) if "." not in name]
    return tuple(module for module in top_level if _is_own(module))


def _is_own(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or module.__name__ in ("__main__", "hba"):
        return False
    path = Path(file).resolve()
    return not (INSTALLED & set(path.parts) or path.is_relative_to(STANDARD_LIBRARY))


@contextlib.contextmanager
def _by_value(modules: tuple[ModuleType, ...]) -> Iterator[None]:
    """Within this context, what the modules define is pickled by value, not by its name."""
    known = cloudpickle.list_registry_pickle_by_value()
    new = [module for module in modules if module.__name__ not in known]
    for module in new:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in new:
            cloudpickle.unregister_pickle_by_value(module)


def _reason(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
