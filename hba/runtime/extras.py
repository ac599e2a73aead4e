"""Libraries that only some need, which are optional extras of the package."""

import importlib
import re
from importlib.metadata import PackageNotFoundError, requires
from types import ModuleType

from hba.errors import SettingsError

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
