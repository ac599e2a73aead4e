"""Writing files whole: a reader, or a later run, never finds one that is half written."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from hba.errors import RunError


def write_atomically(path: Path, write: Callable[[BinaryIO], object], *, before: Path | None = None) -> None:
    """Let `write` fill a file beside `path`, then put it in its place in one step.

    If the writing stops for any reason, `path` keeps its old content. before: where the old content is put when the new
    one is whole; what stops in between leaves it there, and nothing at `path`. Raises RunError where the system
    refuses.
    """
    # One name per file: the next writer overwrites what a killed one left.
    temporary = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if before is not None and path.exists():
            path.replace(before)
        temporary.replace(path)
    except (OSError, RuntimeError) as error:
        # torch.save reports a full disk as RuntimeError.
        reason = getattr(error, "strerror", None) or next(iter(str(error).splitlines()), type(error).__name__)
        raise RunError(f"cannot write {path}: {reason}; what was there before is kept") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def write_text(path: Path, text: str) -> None:
    """UTF-8 text, whole or not at all."""
    write_atomically(path, lambda file: file.write(text.encode()))
