"""Errors that a user can act on. The command line prints each as one line and exits with code 2."""

import contextlib
from collections.abc import Iterator


class HbaError(Exception):
    """Base of every error raised for a user's mistake or a run that cannot go on."""


class SettingsError(HbaError, ValueError):
    """An option or argument has a value that cannot be used."""


class DataError(HbaError, ValueError):
    """The images or their split cannot be used as they are."""


class ScheduleError(HbaError, ValueError):
    """A schedule, or the file that should hold one, breaks the format."""


class RunError(HbaError, RuntimeError):
    """A run folder cannot be written or continued."""


class DivergedError(HbaError, ArithmeticError):
    """A loss is no longer finite."""


class ScheduleLengthWarning(UserWarning):
    """A schedule is read row by row, which suits a training of its own length only."""


@contextlib.contextmanager
def explained_memory_errors() -> Iterator[None]:
    """Turn PyTorch's reports of a full GPU, and of a reading process that died, into RunErrors that say what to do."""
    import torch

    try:
        yield
    except torch.OutOfMemoryError as error:
        reason = str(error).splitlines()[0]
        raise RunError(
            f"the device's memory is full ({reason}); try a smaller batch_size, model or image_size"
        ) from None
    except RuntimeError as error:
        # PyTorch raises it from a signal handler, wherever the main thread is.
        if "DataLoader worker" not in str(error):
            raise
        reason = str(error).splitlines()[0]
        raise RunError(
            f"a process that reads images has died ({reason}); try fewer workers, 0 reads without any"
        ) from None
