"""The operations outside the walk: flips and turns, crops, and other operations that
RandAugment does not have. Some are operations of the walk with another drawing.
"""

import dataclasses
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from hba.operations import (
    codes,
    distortion,
    erasing,
    geometric,
    on_albumentations,
    on_pil,
    photometric,
)
from hba.operations.drawing import AROUND, UP_TO
from hba.operations.operation import MIXING, SYMMETRY, Operation
from hba.operations.table import OPERATIONS

_symmetry = partial(
    Operation,
    stage=SYMMETRY,
    moves_pixels=True,
    any_channels=True,
    kernel="nearest",
    code=codes.WARP,
)
_crop = partial(
    Operation, stage="crop", moves_pixels=True, any_channels=True, uses_fill=True
)
_affine = partial(_crop, kernel="nearest", code=codes.WARP)
_use = partial(dataclasses.replace, randaugment=None, pba=None)
"""Another use of an operation of the walk."""
_factor = partial(
    _use,
    drawing=AROUND,
    magnitude_range=(0.0, 1.0),
    unit="largest change of the factor",
    stage="photometric",
)
_color = partial(Operation, stage="photometric", moves_pixels=False)
_distortion = partial(
    Operation,
    stage="photometric",
    identity=0.0,
    moves_pixels=True,
    any_channels=True,
    uses_fill=True,
)
_erasing = partial(
    Operation,
    stage="erasing",
    moves_pixels=False,
    any_channels=True,
    uses_fill=True,
    n_uniforms=4,
)
_mixing = partial(
    Operation,
    stage=MIXING,
    magnitude_range=(0.0, 1.0),
    unit="alpha",
    identity=0.0,
    any_channels=True,
)


def of_batches(*_: object) -> None:
    """Placeholder for an operation on a batch and its labels, which
    hba/training/mixing.py computes.
    """
    raise NotImplementedError


_ROWS = (
    _symmetry(
        "HorizontalFlip",
        geometric.horizontal_flip,
        pil="ImageOps.mirror",
        on_pil=on_pil.mirror_by_pil,
        on_albumentations=on_albumentations.horizontal_flip,
    ),
    _symmetry(
        "VerticalFlip",
        geometric.vertical_flip,
        pil="ImageOps.flip",
        on_pil=on_pil.flip_by_pil,
        on_albumentations=on_albumentations.vertical_flip,
    ),
    _symmetry(
        "QuarterTurn",
        geometric.quarter_turn,
        pil="Image.transpose",
        on_pil=on_pil.quarter_turn_by_pil,
        on_albumentations=on_albumentations.quarter_turn,
        n_moves=3,
        n_uniforms=1,
    ),
    _crop(
        "ResizedCrop",
        geometric.resized_crop,
        magnitude_range=(1.0, 0.08),
        unit="least share of the area",
        identity=1.0,
        drawing=UP_TO,
        pil="Image.transform EXTENT",
        on_pil=on_pil.resized_crop_by_pil,
        on_albumentations=on_albumentations.resized_crop,
        n_uniforms=3,
        kernel="bilinear",
    ),
    _affine(
        "Zoom",
        geometric.zoom,
        magnitude_range=(0.0, 0.5),
        unit="largest change of the factor",
        identity=1.0,
        drawing=AROUND,
        pil="torchvision RandomAffine",
        on_pil=on_pil.zoom_by_pil,
        on_albumentations=on_albumentations.zoom,
    ),
    _affine(
        "Shear",
        geometric.shear,
        magnitude_range=(0.0, 45.0),
        unit="largest angle in degrees",
        identity=0.0,
        drawing=AROUND,
        pil="torchvision RandomAffine",
        on_pil=on_pil.shear_by_pil,
        on_albumentations=on_albumentations.shear,
    ),
    _use(
        OPERATIONS["Rotate"],
        name="Rotation",
        drawing=AROUND,
        magnitude_range=(0.0, 45.0),
        unit="largest angle in degrees",
        stage="crop",
    ),
    _affine(
        "PaddedCrop",
        geometric.padded_crop,
        magnitude_range=(0.0, 0.25),
        unit="largest shift, fraction of the side",
        identity=0.0,
        pil="Image.transform (1, 0, x, 0, 1, y)",
        on_pil=on_pil.padded_crop_by_pil,
        on_albumentations=on_albumentations.padded_crop,
        n_uniforms=2,
    ),
    _factor(OPERATIONS["Brightness"], name="BrightnessJitter"),
    _factor(OPERATIONS["Contrast"], name="ContrastJitter"),
    _color(
        "Hue",
        photometric.hue,
        magnitude_range=(0.0, 0.5),
        unit="largest shift in turns",
        identity=0.0,
        drawing=AROUND,
        pil="torchvision adjust_hue",
        on_albumentations=on_albumentations.hue,
    ),
    _factor(OPERATIONS["Color"], name="Saturation"),
    _color(
        "Gamma",
        photometric.gamma,
        magnitude_range=(0.0, 1.0),
        unit="largest log2 of the exponent",
        identity=0.0,
        drawing=AROUND,
        any_channels=True,
        pil="torchvision adjust_gamma",
        on_albumentations=on_albumentations.gamma,
    ),
    _color(
        "Gray",
        photometric.grayscale,
        pil="ImageOps.grayscale",
        on_albumentations=on_albumentations.gray,
    ),
    _color(
        "Blur",
        photometric.blur,
        magnitude_range=(0.0, photometric.LARGEST_BLUR),
        unit="largest deviation, fraction of shorter side",
        identity=0.0,
        drawing=UP_TO,
        any_channels=True,
        pil="torchvision gaussian_blur",
        on_albumentations=on_albumentations.blur,
    ),
    _color(
        "Noise",
        photometric.noise,
        magnitude_range=(0.0, 0.2),
        unit="largest deviation",
        identity=0.0,
        drawing=UP_TO,
        any_channels=True,
        pil="torchvision gaussian_noise",
        on_albumentations=on_albumentations.noise,
        n_uniforms=1,
    ),
    _color(
        "Jpeg",
        photometric.jpeg,
        magnitude_range=(100.0, 10.0),
        unit="lowest quality",
        identity=100.0,
        drawing=UP_TO,
        pil="Image.save, JPEG",
        on_albumentations=on_albumentations.jpeg,
    ),
    _distortion(
        "Perspective",
        distortion.perspective,
        magnitude_range=(0.0, 0.5),
        unit="largest shift of a corner, fraction of half a side",
        n_uniforms=8,
        pil="torchvision RandomPerspective",
        on_annotation=distortion.perspective_of_annotation,
    ),
    _distortion(
        "Elastic",
        distortion.elastic,
        magnitude_range=(0.0, 0.2),
        unit="largest shift, fraction of the side",
        n_uniforms=1,
        pil="torchvision elastic",
        on_annotation=distortion.elastic_of_annotation,
    ),
    _erasing(
        "Erase",
        erasing.erase,
        magnitude_range=(0.0, 0.4),
        unit="largest share of the area",
        identity=0.0,
        pil="torchvision RandomErasing",
        on_albumentations=on_albumentations.erase,
    ),
    _mixing("Mixup", of_batches, pil="torchvision v2.MixUp"),
    _mixing("CutMix", of_batches, pil="torchvision v2.CutMix"),
)

STAGED: Mapping[str, Operation] = MappingProxyType({row.name: row for row in _ROWS})
"""By name, in the order of their stages."""
