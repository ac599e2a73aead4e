"""Public names of a package that are imported when they are first asked for.

PyTorch takes seconds to import. A program that only lists schedules, or prints its version, does not need it.
"""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


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
