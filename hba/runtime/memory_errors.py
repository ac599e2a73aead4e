"""PyTorch's reports of memory that ran out, in words that say what to do."""

import contextlib
from collections.abc import Iterator

import torch

from hba.errors import RunError


@contextlib.contextmanager
def explained_memory_errors() -> Iterator[None]:
    """Turn reports of a full memory or GPU, and of a reading process that died, into RunErrors that say what to do."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        reason = str(error).splitlines()[0]
        raise RunError(
            f"the device's memory is full ({reason}); try a smaller batch_size, model or image_size"
        ) from None
    except MemoryError:
        raise RunError("the memory is full; try a smaller batch_size, model or image_size") from None
    except RuntimeError as error:
        if "can't allocate memory" in str(error):
            raise RunError("the memory is full; try a smaller batch_size, model or image_size") from None
        # PyTorch raises it from a signal handler, wherever the main thread is.
        if "DataLoader worker" not in str(error):
            raise
        raise reader_died(str(error).splitlines()[0]) from None


def reader_died(reason: str) -> RunError:
    """What to tell of a process that read images."""
    return RunError(f"a process that reads images has died ({reason}); try fewer workers, 0 reads without any")
