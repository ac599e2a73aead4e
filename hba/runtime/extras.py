"""Libraries that only some need, which are optional extras of the package."""

import importlib
from types import ModuleType

from hba.errors import SettingsError


def import_extra(module: str, extra: str, what: str) -> ModuleType:
    """The module; SettingsError that says what needs it and how to install it, where it is not there."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        # One that is there, and lacks something itself, is another mistake.
        if error.name != module.partition(".")[0]:
            raise
        raise SettingsError(f"{what} needs {module}: pip install 'hba-augment[{extra}]'") from None
