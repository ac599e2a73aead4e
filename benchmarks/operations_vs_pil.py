"""Each operation beside the PIL call that defines it, on 8-bit pieces of real photographs.

    python benchmarks/operations_vs_pil.py

The photographs are the two that ship with scikit-learn, cut into pieces of 32x32 and 224x224. Magnitudes are drawn
uniformly from the range, negated half the time where the operation is signed. Largest and mean difference are in
grey levels over all values; then the share of values that differ by more than one level, and what is allowed: nothing,
one level for those that blend images, or a share. Exit status 1 if an operation differs by more.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_sample_images
from torch import Tensor

from hba.operations import OPERATIONS, Operation
from hba.operations.enhance import Blend
from hba.policy.spaces import as_markdown

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "operations"))
from pil_reference import PIL_REFERENCE, geometric_reference

PIECES = ((32, 400), (224, 40))
FILL = (123, 117, 104)
HEADINGS = ("operation", "PIL", "magnitude", "interpolation", "largest", "mean", "differ by > 1", "allowed")

EXACT = (0.0, 0.0)
ONE_LEVEL = (1.0, 0.0)
AT_TIES = (255.0, 0.005)
"""The largest difference in grey levels, and the share of values that may differ by more than one."""


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
    return torch.from_numpy(rng.uniform(low, high, n_images) * sign).float()


def bound(operation: Operation) -> tuple[float, float]:
    if operation.interpolation == "bilinear":
        return AT_TIES
    return ONE_LEVEL if isinstance(operation.function, Blend) else EXACT


def differences(operation: Operation, images: Tensor, rng: np.random.Generator) -> Tensor:
    """Absolute differences in grey levels of every pixel."""
    magnitude = magnitudes_for(operation, len(images), rng)
    fill = torch.tensor(FILL) / 255
    ours = operation(images.float() / 255, magnitude, fill=fill).mul(255).round()
    bilinear = geometric_reference(Image.Resampling.BILINEAR)
    references = bilinear if operation.interpolation == "bilinear" else PIL_REFERENCE
    expected = []
    for image, number in zip(images, magnitude.tolist(), strict=True):
        reference = references[operation.name](Image.fromarray(image.permute(1, 2, 0).numpy()), number, FILL)
        expected.append(torch.from_numpy(np.array(reference)).permute(2, 0, 1))
    return (ours - torch.stack(expected)).abs().flatten()


def compared() -> list[Operation]:
    """All operations, then those that move pixels once more with bilinear interpolation."""
    moving = [operation for operation in OPERATIONS.values() if operation.interpolation is not None]
    return [*OPERATIONS.values(), *(operation.with_interpolation("bilinear") for operation in moving)]


def row_of(operation: Operation, images: Sequence[Tensor], rng: np.random.Generator) -> tuple[list[str], bool]:
    """What the table says of an operation, and whether it differs by no more than is allowed."""
    difference = torch.cat([differences(operation, batch, rng) for batch in images])
    largest, share = float(difference.max()), float((difference > 1).float().mean())
    most, most_share = bound(operation)
    span = "-" if operation.magnitude_range is None else "{:g} to {:g}".format(*operation.magnitude_range)
    named = [
        operation.name,
        operation.pil or "-",
        f"+-{span}" if operation.signed else span,
        operation.interpolation or "-",
    ]
    figures = [f"{largest:g}", f"{difference.mean():.4f}", f"{100 * share:.4f} %"]
    allowed = f"{100 * most_share:g} %" if most_share else f"{most:g}"
    return [*named, *figures, allowed], largest <= most and share <= most_share


def main() -> None:
    rng = np.random.default_rng(0)
    images = [photograph_pieces(side, n_pieces, rng) for side, n_pieces in PIECES]
    rows = [row_of(operation, images, rng) for operation in compared()]
    print(as_markdown(HEADINGS, [row for row, _ in rows]))
    if broken := [row[0] for row, is_as_allowed in rows if not is_as_allowed]:
        sys.exit(f"differ from PIL by more than allowed: {', '.join(broken)}")


if __name__ == "__main__":
    main()
