"""The 15 operations of the paper's Table 9, one row each."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from PIL import ImageEnhance, ImageOps

from hba.operations import enhance, geometric, on_pil, point
from hba.operations.enhance import Blend
from hba.operations.geometric import Warp, cutout
from hba.operations.on_pil import Enhancer
from hba.operations.operation import Operation
from hba.operations.point import Curve, Stretch

_geometric = partial(Operation, identity=0.0, signed=True, uses_fill=True, moves_pixels=True, any_channels=True)
_point = partial(Operation, moves_pixels=False, any_channels=True)
_enhancer = partial(
    Operation, magnitude_range=(0.1, 1.9), unit="PIL enhancement factor", identity=1.0, moves_pixels=False
)
_SHEAR, _WIDTH, _HEIGHT = "shear factor", "fraction of width", "fraction of height"
_SHEAR_X, _SHEAR_Y = "Image.transform (1, m, 0, 0, 1, 0)", "Image.transform (1, 0, 0, m, 1, 0)"
_SHIFT_X, _SHIFT_Y = "Image.transform (1, 0, m W, 0, 1, 0)", "Image.transform (1, 0, 0, 0, 1, m H)"

_ROWS = (
    _geometric("ShearX", Warp(geometric.shear_x), (0.0, 0.3), _SHEAR, pil=_SHEAR_X, on_pil=on_pil.shear_x),
    _geometric("ShearY", Warp(geometric.shear_y), (0.0, 0.3), _SHEAR, pil=_SHEAR_Y, on_pil=on_pil.shear_y),
    _geometric("TranslateX", Warp(geometric.translate_x), (0.0, 0.45), _WIDTH, pil=_SHIFT_X, on_pil=on_pil.translate_x),
    _geometric(
        "TranslateY", Warp(geometric.translate_y), (0.0, 0.45), _HEIGHT, pil=_SHIFT_Y, on_pil=on_pil.translate_y
    ),
    _geometric("Rotate", Warp(geometric.rotate), (0.0, 30.0), "degrees", pil="Image.rotate", on_pil=on_pil.rotate),
    _point("AutoContrast", Stretch(point.auto_contrast), pil="ImageOps.autocontrast", on_pil=ImageOps.autocontrast),
    _point("Invert", Curve(point.invert), pil="ImageOps.invert", on_pil=ImageOps.invert),
    _point("Equalize", Stretch(point.equalize), pil="ImageOps.equalize", on_pil=ImageOps.equalize),
    _point(
        "Solarize",
        Curve(point.solarize),
        (0.0, 255.0),
        "first grey level inverted",
        256.0,
        "ImageOps.solarize",
        on_pil.solarize,
    ),
    _point("Posterize", Curve(point.posterize), (0.0, 8.0), "bits kept", 8.0, "ImageOps.posterize", on_pil.posterize),
    _enhancer(
        "Contrast", Blend(enhance.mean_gray), pil="ImageEnhance.Contrast", on_pil=Enhancer(ImageEnhance.Contrast)
    ),
    _enhancer("Color", Blend(enhance.gray), pil="ImageEnhance.Color", on_pil=Enhancer(ImageEnhance.Color)),
    _enhancer(
        "Brightness",
        Blend(enhance.black),
        pil="ImageEnhance.Brightness",
        on_pil=Enhancer(ImageEnhance.Brightness),
        any_channels=True,
    ),
    _enhancer(
        "Sharpness",
        Blend(enhance.smooth),
        pil="ImageEnhance.Sharpness",
        on_pil=Enhancer(ImageEnhance.Sharpness),
        any_channels=True,
    ),
    Operation(
        "Cutout",
        cutout,
        (0.0, 0.2),
        "fraction of shorter side",
        0.0,
        "ImageDraw.rectangle, filled",
        on_pil.cutout,
        uses_fill=True,
        uses_position=True,
        moves_pixels=False,
        any_channels=True,
    ),
)

OPERATIONS: Mapping[str, Operation] = MappingProxyType({row.name: row for row in _ROWS})
"""The 15 of the paper, by name; those that were registered are not among them."""
