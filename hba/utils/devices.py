"""The device that a setting names."""

import contextlib
from collections.abc import Iterator

import torch

from hba.errors import RunError, SettingsError
from hba.utils.text import did_you_mean


def check_device_name(name: str) -> None:
    """SettingsError for what names no device, and for kinds that nobody has tried; whether it is here, is not asked."""
    kind = name.partition(":")[0]
    try:
        is_known = name == "auto" or (kind in ("cpu", "cuda") and torch.device(name).type == kind)
    except RuntimeError:
        is_known = False
    if not is_known:
        meant = did_you_mean("cuda" if kind == "gpu" else name, ("auto", "cpu", "cuda"))
        raise SettingsError(f"must be auto, cpu, cuda or cuda:<number>, got {name!r}{meant}")


def find_device(name: str) -> torch.device:
    """The device of that name, on this machine; `auto` is a CUDA GPU where there is one.

    SettingsError where there is no such device, and as check_device_name.
    """
    check_device_name(name)
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(name)
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise SettingsError(f"device {name!r} cannot be used ({reason}); try auto or cpu") from None
    return device


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
