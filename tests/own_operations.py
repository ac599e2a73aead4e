"""An operation as a user would write it: in Python, and as a file for the commands."""

from PIL import ImageOps
from torch import Tensor

from hba.operations import Operation, codes, on_albumentations


def gamma(images: Tensor, exponent: Tensor) -> Tensor:
    return images ** exponent[:, None, None, None]


def darken(images: Tensor) -> Tensor:
    return images / 2


def negative(images: Tensor) -> Tensor:
    return 1 - images


GAMMA = Operation("Power", gamma, (0.5, 2.0), "exponent", 1.0)
DARKEN = Operation("Darken", darken)
NEGATIVE = Operation(
    "Negative",
    negative,
    on_pil=ImageOps.invert,
    on_albumentations=on_albumentations.invert,
    moves_pixels=False,
    any_channels=True,
    code=codes.INVERT,
    randaugment=(),
)
"""With a function for all that a row can have one for."""

GAMMA_FILE = """\
import hba


def gamma(images, exponent):
    return images ** exponent[:, None, None, None]


hba.register_operation(hba.Operation("Power", gamma, (0.5, 2.0), "exponent", 1.0))
"""
