"""Pickles tasks for other processes and machines, together with the user's own classes, functions and registrations."""

import contextlib
import pickle
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from hba.errors import SettingsError
from hba.executors.executor import Shared, TaskFunction, Tensors
from hba.operations import register_operation, registered_operations
from hba.regularization.groups import register_regularizer, registered_regularizers

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
