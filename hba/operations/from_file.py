"""Your own operations from a Python file, which is run and registers them."""

import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hba.errors import SettingsError
from hba.operations import registered_operations


def load_operations_file(
    path: Path, registered: Callable[[], tuple[Any, ...]] = registered_operations
) -> tuple[Any, ...]:
    """Run a file that calls hba.register_operation; return the operations that it registered.

    registered: lists all that counts as registered. Raises SettingsError for a file that is missing, that fails, or
    that registers nothing.
    """
    before = set(registered())
    if not path.is_file():
        raise SettingsError(f"no operations file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SettingsError(f"an operations file must be a Python file ending .py, got {path}")
    module = importlib.util.module_from_spec(spec)
    # Pickling finds a function by the name of its module. A module that has this name already stays.
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        if sys.modules.get(path.stem) is module:
            del sys.modules[path.stem]
        reason = " ".join(str(error).split())
        raise SettingsError(f"{path} failed: {type(error).__name__}: {reason}{_line(error, path)}") from None
    new = tuple(one for one in registered() if one not in before)
    if not new:
        raise SettingsError(f"{path} registers no operation; it must call hba.register_operation")
    return new


def _line(error: BaseException, path: Path) -> str:
    """` (line 3)`: where in the file the error arose."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).resolve() == path.resolve()
    ]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    return f" (line {line})" if line else ""
