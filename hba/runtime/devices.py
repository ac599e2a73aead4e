"""The device that a setting names."""

import torch

from hba.errors import SettingsError
from hba.runtime.unknown import did_you_mean


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
