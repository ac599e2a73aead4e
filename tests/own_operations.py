"""An operation as a user would write it: in Python, and as a file for the commands."""

from torch import Tensor

from hba.operations import Operation


def gamma(images: Tensor, exponent: Tensor) -> Tensor:
    return images ** exponent[:, None, None, None]


def darken(images: Tensor) -> Tensor:
    return images / 2


GAMMA = Operation("Power", gamma, (0.5, 2.0), "exponent", 1.0)
DARKEN = Operation("Darken", darken)

GAMMA_FILE = """\
import hba


def gamma(images, exponent):
    return images ** exponent[:, None, None, None]


hba.register_operation(hba.Operation("Power", gamma, (0.5, 2.0), "exponent", 1.0))
"""
