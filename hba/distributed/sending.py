"""What a task is made of on its way to another process, or to another machine, with all that is its user's own."""

import contextlib
import pickle
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from hba.errors import SettingsError

STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib")).resolve()
INSTALLED = {"site-packages", "dist-packages"}
"""Folders of what is installed, by whichever tool and for whichever user."""


def packed(parts: Any, modules: Iterable[str], what: str, remedy: str) -> bytes:
    """For `unpacked`, also with functions and classes that only this process knows, as those of a script.

    modules: names of those that the parts may need; what they define is sent as it is, unless they are installed. what:
    the parts in words, remedy: what to do instead; the SettingsError says both where they cannot be sent.
    """
    try:
        with _by_value(own_modules(modules)):
            return bytes(cloudpickle.dumps(parts))
    except Exception as error:
        raise SettingsError(f"{what} cannot be sent to another process ({_reason(error)}); {remedy}") from None


def unpacked(content: bytes) -> Any:
    """What was packed. SettingsError where it needs what is not here."""
    try:
        return pickle.loads(content)
    except Exception as error:
        told = f"what was sent to another process cannot be made anew there ({_reason(error)}); omit jobs and cluster"
        raise SettingsError(told) from error


def call(content: bytes, paths: Sequence[str]) -> Any:
    """In another process: what a function makes of its arguments, both packed together. paths: where their modules are
    found there.
    """
    sys.path += [path for path in paths if path not in sys.path]
    function, arguments = unpacked(content)
    return function(*arguments)


def own_modules(names: Iterable[str]) -> tuple[ModuleType, ...]:
    """Those of these that another machine would not find: which are not installed. With a package go all its modules.

    A script itself is sent as it is without being asked for.
    """
    found = (sys.modules.get(name) for name in sorted({name.partition(".")[0] for name in names}))
    return tuple(module for module in found if module is not None and _is_own(module))


def _is_own(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if file is None or module.__name__ in ("__main__", "hba"):
        return False
    path = Path(file).resolve()
    return not (INSTALLED & set(path.parts) or path.is_relative_to(STANDARD_LIBRARY))


@contextlib.contextmanager
def _by_value(modules: tuple[ModuleType, ...]) -> Iterator[None]:
    """Here what the modules define is packed as it is, not by its name."""
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
