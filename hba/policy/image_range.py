"""Images that were normalised before they are augmented are refused, without a wait in every batch."""

import torch
from torch import Tensor

from hba.errors import SettingsError

PLAUSIBLE_RANGE = (-0.5, 1.5)
"""Beyond it, floating point images have been normalised; resizing overshoots [0, 1] a little."""
READ_AT_ONCE = ("cpu",)
"""Kinds of device whose values the host reads without waiting for what the device still computes."""
WITHOUT_VALUES = ("meta",)


class RangeCheck:
    """Refuses floating point images that cannot lie in [0, 1].

    On a CPU every batch is looked at, elsewhere the first on each device only: the host waits for the device to read
    values, and who normalises, normalises every batch.
    """

    def __init__(self) -> None:
        self._looked_at: set[torch.device] = set()

    def __call__(self, images: Tensor) -> None:
        """Raise SettingsError for images, of any shape, with values beyond PLAUSIBLE_RANGE or not finite."""
        device = images.device
        if device.type in WITHOUT_VALUES or device in self._looked_at:
            return
        if not images.is_floating_point() or not images.numel():
            return
        lowest, highest = torch.stack([images.detach().min(), images.detach().max()]).tolist()
        low, high = PLAUSIBLE_RANGE
        if not (lowest >= low and highest <= high):
            raise SettingsError(
                f"floating point images must lie in [0, 1], got [{lowest:g}, {highest:g}]; "
                "place the policy before the normalisation"
            )
        if device.type not in READ_AT_ONCE:
            self._looked_at.add(device)
