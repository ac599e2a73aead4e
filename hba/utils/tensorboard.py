"""TensorBoard's event files, which are an optional extra and never end a run."""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from hba.errors import ReportWarning
from hba.utils.imports import import_extra

FOLDER_NAME = "tensorboard"


class EventFiles:
    """Writes into a folder, and into folders in it. stage: what goes on without the events.

    What cannot be written is told once, by a ReportWarning, and ends the events, not the stage. Raises SettingsError
    where tensorboard is not installed.
    """

    def __init__(self, folder: str | Path, stage: Literal["search", "evaluation"]) -> None:
        import_extra("tensorboard", "tensorboard", "writing TensorBoard events")
        from torch.utils.tensorboard import SummaryWriter

        self._folder, self._stage = Path(folder), stage
        self._open: Any = SummaryWriter
        self._writer: Any = None

    def begin(self, name: str = "", purge_step: int | None = None) -> None:
        """What follows goes into the folder of that name. purge_step: the first step that it replaces."""

        def open_it() -> None:
            self._writer = self._open(str(self._folder / name), purge_step=purge_step)

        self._try(open_it)

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """By tag; they are in the file when this returns."""

        def write() -> None:
            for name, value in values.items():
                self._writer.add_scalar(name, value, step)
            # What was told is there, whatever happens next.
            self._writer.flush()

        self._try(write)

    def image(self, name: str, picture: Any, step: int) -> None:
        """picture: uint8 (3, H, W)."""
        self._try(lambda: self._writer.add_image(name, picture, step))

    def end(self) -> None:
        self._try(lambda: self._writer.close())

    def _try(self, write: Callable[[], None]) -> None:
        if self._open is None:
            return
        try:
            write()
        except OSError as error:
            self._open = None
            warnings.warn(
                f"no more TensorBoard events are written into {self._folder}: {error.strerror or error}; the "
                f"{self._stage} goes on",
                ReportWarning,
                stacklevel=3,
            )
