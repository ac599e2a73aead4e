"""The device that a setting names."""

import torch

from hba.errors import SettingsError
from hba.runtime.unknown import did_you_mean


def find_device(name: str) -> torch.device:
    """The device of that name; `auto` is a CUDA GPU where there is one.

    SettingsError where there is no such device, and for kinds that nobody has tried.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        kind = name.partition(":")[0]
        if kind not in ("cpu", "cuda"):
            meant = did_you_mean("cuda" if kind == "gpu" else name, ("auto", "cpu", "cuda"))
            raise SettingsError(f"must be auto, cpu, cuda or cuda:<number>, got {name!r}{meant}")
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise SettingsError(f"device {name!r} cannot be used ({reason}); try auto or cpu") from None
    return device
