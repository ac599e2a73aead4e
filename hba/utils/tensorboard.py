"""TensorBoard event files, from the optional package tensorboard."""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from hba.errors import ReportWarning
from hba.utils.imports import import_extra

FOLDER_NAME = "tensorboard"


class EventFiles:
    """Writes events into a folder and its subfolders. SettingsError if tensorboard is not installed.

    If the disk refuses, a ReportWarning says so once, and the stage (the search or the evaluation) continues without
    events.
    """

    def __init__(self, folder: str | Path, stage: Literal["search", "evaluation"]) -> None:
        import_extra("tensorboard", "tensorboard", "writing TensorBoard events")
        from torch.utils.tensorboard import SummaryWriter

        self._folder, self._stage = Path(folder), stage
        self._open: Any = SummaryWriter
        self._writer: Any = None

    def begin(self, name: str = "", purge_step: int | None = None) -> None:
        """Write into the subfolder of that name from now on. purge_step: the first step that is replaced."""
        self._try(lambda: setattr(self, "_writer", self._open(str(self._folder / name), purge_step=purge_step)))

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Write values by tag, and flush."""

        def write() -> None:
            for name, value in values.items():
                self._writer.add_scalar(name, value, step)
            self._writer.flush()

        self._try(write)

    def end(self) -> None:
        """Close the file."""
        self._try(lambda: self._writer.close())

    def _try(self, write: Callable[[], None]) -> None:
        if self._open is None:
            return
        try:
            write()
        except OSError as error:
            self._open = None
            reason = f"no more TensorBoard events are written into {self._folder}: {error.strerror or error}"
            warnings.warn(f"{reason}; the {self._stage} continues", ReportWarning, stacklevel=3)
