"""Tries a user's operation on a small batch when it is registered: its mistakes show before a search begins."""

import torch

from hba.errors import SettingsError
from hba.operations.operation import Operation

SHAPE = (2, 3, 32, 32)
ROUNDING = 1e-3


def try_out(operation: Operation) -> None:
    """Apply the operation at both ends of its range, and of its other side where it is signed; SettingsError says what
    is wrong with the result.
    """
    pixels = torch.arange(torch.Size(SHAPE).numel()) * 37 % 256
    images = (pixels / 255).view(SHAPE)
    ends = operation.magnitude_range or (0.0,)
    for magnitude in (*ends, *(-end for end in ends if operation.signed and end)):
        given = images.clone()
        magnitudes = None if operation.magnitude_range is None else torch.full(SHAPE[:1], magnitude)
        try:
            result = operation(given, magnitudes)
        except Exception as error:
            # A user's function may raise anything.
            reason = " ".join(str(error).split())
            raise SettingsError(f"{operation.name} fails on images {SHAPE}: {type(error).__name__}: {reason}") from None
        if not isinstance(result, torch.Tensor) or result.shape != given.shape or result.dtype != given.dtype:
            found = (
                f"{result.dtype} {tuple(result.shape)}" if isinstance(result, torch.Tensor) else type(result).__name__
            )
            raise SettingsError(
                f"{operation.name} must return images like those it gets, torch.float32 {SHAPE}, got {found}"
            )
        if not torch.equal(given, images):
            raise SettingsError(f"{operation.name} must not change the images that it gets; return new ones")
        if not ((result >= -ROUNDING) & (result <= 1 + ROUNDING)).all():
            raise SettingsError(
                f"{operation.name} must return values in [0, 1], got [{result.min():g}, {result.max():g}] "
                f"at magnitude {magnitude:g}; .clamp(0, 1) helps"
            )
