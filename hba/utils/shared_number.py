"""A number in memory that processes share. hba/exports/python_file.py writes it into
exported files.
"""

import copyreg
from multiprocessing.context import get_spawning_popen
from multiprocessing.sharedctypes import RawValue
from types import SimpleNamespace
from typing import Any


class SharedNumber:
    """A number, `value`, that the processes which are started with a copy of it share,
    however they are started.

    A copy from a pickle that is not for a new process has a number of its own. Where
    there is no shared memory, and thus no process could be started, it is an ordinary
    number.
    """

    def __init__(self, value: float) -> None:
        # Unlike a tensor's memory, this does not depend on PyTorch's sharing strategy.
        try:
            self._holder: Any = RawValue("d", value)
        except OSError:
            self._holder = SimpleNamespace(value=value)

    @property
    def value(self) -> float:
        return float(self._holder.value)

    @value.setter
    def value(self, value: float) -> None:
        self._holder.value = value

    def __reduce__(self) -> Any:
        if get_spawning_popen() is None:
            return SharedNumber, (self.value,)
        return copyreg.__newobj__, (SharedNumber,), vars(self)  # type: ignore[attr-defined]
