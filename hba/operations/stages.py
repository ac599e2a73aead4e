"""The operations outside the walk, one row each: flips and turns, crops, and what the field adds to RandAugment's."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from hba.operations import geometric, on_pil
from hba.operations.operation import MIXING, Operation

_symmetry = partial(Operation, stage="symmetry", moves_pixels=True, any_channels=True, kernel="nearest")
_crop = partial(Operation, stage="crop", moves_pixels=True, any_channels=True, uses_fill=True)
_mixing = partial(Operation, stage=MIXING, magnitude_range=(0.0, 1.0), unit="alpha", identity=0.0, any_channels=True)


def of_batches(*_: object) -> None:
    """Stands for an operation on a batch with its labels, which hba/training/mixing.py does."""
    raise NotImplementedError


_ROWS = (
    _symmetry("HorizontalFlip", geometric.horizontal_flip, pil="ImageOps.mirror", on_pil=on_pil.mirror),
    _symmetry("VerticalFlip", geometric.vertical_flip, pil="ImageOps.flip", on_pil=on_pil.flip),
    _symmetry("QuarterTurn", geometric.quarter_turn, pil="Image.transpose", on_pil=on_pil.quarter_turn, n_uniforms=1),
    _crop(
        "ResizedCrop",
        geometric.resized_crop,
        (1.0, 0.08),
        "least share of the area",
        1.0,
        "Image.transform EXTENT",
        on_pil.resized_crop,
        n_uniforms=4,
        kernel="bilinear",
    ),
    _crop(
        "PaddedCrop",
        geometric.padded_crop,
        (0.0, 0.25),
        "largest shift, fraction of the side",
        0.0,
        "Image.transform (1, 0, x, 0, 1, y)",
        on_pil.padded_crop,
        n_uniforms=2,
        kernel="nearest",
    ),
    _mixing("Mixup", of_batches, pil="torchvision v2.MixUp"),
    _mixing("CutMix", of_batches, pil="torchvision v2.CutMix"),
)

STAGED: Mapping[str, Operation] = MappingProxyType({row.name: row for row in _ROWS})
"""By name, in the order of their stages."""
