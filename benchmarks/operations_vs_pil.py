"""Each operation beside the PIL call that defines it, on 8-bit pieces of real photographs.

    python benchmarks/operations_vs_pil.py

The photographs are the two that ship with scikit-learn, cut into pieces of 32x32 and 224x224. Magnitudes are drawn
uniformly from the range, negated half the time where the operation is signed. Largest and mean difference are in
grey levels over all pixels; the last column is the share of pixels that differ by more than one level.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_sample_images
from torch import Tensor

from hba.operations import OPERATIONS, Operation

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "operations"))
from pil_reference import PIL_REFERENCE

PIECES = ((32, 400), (224, 40))
FILL = (123, 117, 104)


def photograph_pieces(side: int, n_pieces: int, rng: np.random.Generator) -> Tensor:
    """uint8 (n_pieces, 3, side, side), cut at random places."""
    photographs = [photograph.copy() for photograph in load_sample_images().images]
    pieces = []
    for index in range(n_pieces):
        photograph = photographs[index % len(photographs)]
        top, left = (int(rng.integers(length - side)) for length in photograph.shape[:2])
        pieces.append(torch.from_numpy(photograph[top : top + side, left : left + side]).permute(2, 0, 1))
    return torch.stack(pieces)


def magnitudes_for(operation: Operation, n_images: int, rng: np.random.Generator) -> Tensor:
    low, high = operation.magnitude_range or (0.0, 0.0)
    sign = rng.choice([-1.0, 1.0], n_images) if operation.signed else 1.0
    return torch.from_numpy(rng.uniform(low, high, n_images) * sign)


def differences(operation: Operation, images: Tensor, rng: np.random.Generator) -> Tensor:
    """Absolute differences in grey levels of every pixel."""
    magnitude = magnitudes_for(operation, len(images), rng)
    fill = torch.tensor(FILL) / 255
    ours = operation(images.float() / 255, magnitude.float(), fill=fill).mul(255).round()
    expected = []
    for image, number in zip(images, magnitude.tolist(), strict=True):
        reference = PIL_REFERENCE[operation.name](Image.fromarray(image.permute(1, 2, 0).numpy()), number, FILL)
        expected.append(torch.from_numpy(np.array(reference)).permute(2, 0, 1))
    return (ours - torch.stack(expected)).abs().flatten()


def main() -> None:
    rng = np.random.default_rng(0)
    images = [photograph_pieces(side, n_pieces, rng) for side, n_pieces in PIECES]
    table = Table(title=", ".join(f"{n} pieces of {side}x{side}" for side, n in PIECES))
    for heading in ("operation", "PIL", "range", "unit", "largest", "mean", "differ by > 1"):
        table.add_column(heading)
    for operation in OPERATIONS.values():
        difference = torch.cat([differences(operation, batch, rng) for batch in images])
        span = "-" if operation.magnitude_range is None else "{:g} to {:g}".format(*operation.magnitude_range)
        table.add_row(
            operation.name,
            operation.pil,
            f"+-{span}" if operation.signed else span,
            operation.unit or "-",
            f"{difference.max():g}",
            f"{difference.mean():.4f}",
            f"{100 * (difference > 1).float().mean():.3f} %",
        )
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
