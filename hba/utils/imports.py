"""Imports on first use, and optional packages.

PyTorch takes seconds to import, and a program that only lists schedules or prints its
version does not need it.
"""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from hba.errors import SettingsError

EXTRAS: Mapping[str, Sequence[str]] = {
    "tables": ["pandas", "pyarrow"],
    "datasets": ["datasets"],
    "coco": ["pycocotools"],
    "cluster": ["ray"],
    "exports": ["albumentations", "lightning"],
    "numba": ["numba"],
    "tensorboard": ["tensorboard"],
}
"""Optional packages, by the extra of hba that installs them."""


def lazy_names(
    package: str, modules: Mapping[str, str], folders: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package that imports names on first use.

    They are for the `__init__.py` of the package.

    Args:
        package: Its name.
        modules: By public name, the module that defines it.
        folders: Submodules that are attributes too.
    """

    def get(name: str) -> Any:
        if name in folders:
            return importlib.import_module(f"{package}.{name}")
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(modules[name]), name)
        # Python calls __getattr__ only for missing names.
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules, *folders})

    return get, names


def import_extra(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional module.

    Args:
        module: Its name.
        extra: A key of EXTRAS.
        purpose: What needs the module, for the message.

    Raises:
        SettingsError: If it is not installed; says that `purpose` needs it and how to
            install it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        # An installed module may itself lack a dependency.
        if error.name != module.partition(".")[0]:
            raise
        raise SettingsError(f"{purpose} needs {module}: {install(extra)}") from None


def install(extra: str) -> str:
    """The command that installs an extra's packages, from any folder."""
    return f"pip install {' '.join(EXTRAS[extra])}"
