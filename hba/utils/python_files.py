"""Python files of the user that hba runs."""

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

import cloudpickle

from hba.errors import SettingsError


def load_python_file(path: Path, kind: str) -> ModuleType:
    """Run a Python file, and return its module, of which other processes get a copy.

    Args:
        path: The file.
        kind: What it should be, for messages.

    Raises:
        SettingsError: If it is missing or fails.
    """
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise SettingsError(f"{kind} must be a Python file ending .py, got {path}")
    module = importlib.util.module_from_spec(spec)
    # Pickling finds a function by the name of its module. An existing module of this
    # name is kept.
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        if sys.modules.get(path.stem) is module:
            del sys.modules[path.stem]
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if Path(frame.filename) == path
        ]
        place = f" (line {lines[-1]})" if lines else ""
        raise SettingsError(f"{path} failed: {error_in_words(error)}{place}") from None
    # Other processes cannot import it.
    cloudpickle.register_pickle_by_value(module)
    return module


def error_in_words(error: BaseException) -> str:
    """The class of an error and its message, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
