"""Public names of a package that are imported when they are first asked for.

PyTorch takes seconds to import. A program that only lists schedules, or prints its version, does not need it.
"""

import importlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, requires
from types import ModuleType
from typing import Any

from hba.errors import SettingsError


def lazy_names(
    package: str, modules: Mapping[str, str], folders: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for the `__init__.py` of a package.

    modules: by public name, the module that defines it. folders: modules of the package that are attributes too,
    without a separate import.
    """

    def get(name: str) -> Any:
        if name in folders:
            return importlib.import_module(f"{package}.{name}")
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(modules[name]), name)
        # Python asks here only for what the package does not have yet.
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules, *folders})

    return get, names


FOR_WORK_ON_HBA = ("benchmarks", "browser", "docs", "test")
"""Extras that no command and no function needs."""


def import_extra(module: str, extra: str, what: str) -> ModuleType:
    """The module; SettingsError that says what needs it and how to install it, where it is not there."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        # One that is there, and lacks something itself, is another mistake.
        if error.name != module.partition(".")[0]:
            raise
        raise SettingsError(f"{what} needs {module}: {install(extra)}") from None


def install(extra: str) -> str:
    """The command that brings it."""
    return f"pip install 'hba-augment[{extra}]'"


def optional_packages() -> dict[str, tuple[str, ...]]:
    """Packages by the extra that brings them, as the installed hba names them; without FOR_WORK_ON_HBA.

    Empty where hba runs without being installed.
    """
    try:
        requirements = requires("hba-augment") or []
    except PackageNotFoundError:
        return {}
    found: dict[str, tuple[str, ...]] = {}
    for requirement in requirements:
        # As in timm>=1.0.3; extra == "timm", and some tools write single quotes.
        extra = re.search(r"""\bextra == ["']([^"']+)["']""", requirement)
        package = re.match(r"[\w.-]+", requirement)
        if extra and package and extra[1] not in FOR_WORK_ON_HBA:
            found[extra[1]] = (*found.get(extra[1], ()), package[0])
    return found
