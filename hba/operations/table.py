"""The 15 operations of the paper's Table 9, one row each."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from PIL import ImageEnhance, ImageOps

from hba.operations import color, geometric, on_pil
from hba.operations.on_pil import Enhancer
from hba.operations.operation import Operation

_moving = partial(
    Operation,
    identity=0.0,
    signed=True,
    uses_fill=True,
    moves_pixels=True,
    any_channels=True,
    kernel="nearest",
)
_curve = partial(Operation, moves_pixels=False, any_channels=True, kernel="curve")
_stretch = partial(Operation, moves_pixels=False, any_channels=True, kernel="stretch")
_FACTORS = ((0.1, 1.9), "PIL enhancement factor", 1.0)
_blend = partial(Operation, moves_pixels=False, kernel="blend")
_blend_any = partial(_blend, any_channels=True)
_cover = partial(
    Operation, uses_fill=True, n_uniforms=2, moves_pixels=False, any_channels=True
)
_SHEAR, _WIDTH, _HEIGHT = "shear factor", "fraction of width", "fraction of height"
_SIDE, _FIRST_LEVEL = "fraction of shorter side", "first grey level inverted"
_SHEAR_X, _SHEAR_Y = (
    "Image.transform (1, m, 0, 0, 1, 0)",
    "Image.transform (1, 0, 0, m, 1, 0)",
)
_SHIFT_X, _SHIFT_Y = (
    "Image.transform (1, 0, m W, 0, 1, 0)",
    "Image.transform (1, 0, 0, 0, 1, m H)",
)

_ROWS = (
    _moving(
        "ShearX",
        geometric.shear_x,
        (0.0, 0.3),
        _SHEAR,
        pil=_SHEAR_X,
        on_pil=on_pil.shear_x,
    ),
    _moving(
        "ShearY",
        geometric.shear_y,
        (0.0, 0.3),
        _SHEAR,
        pil=_SHEAR_Y,
        on_pil=on_pil.shear_y,
    ),
    _moving(
        "TranslateX",
        geometric.translate_x,
        (0.0, 0.45),
        _WIDTH,
        pil=_SHIFT_X,
        on_pil=on_pil.translate_x,
    ),
    _moving(
        "TranslateY",
        geometric.translate_y,
        (0.0, 0.45),
        _HEIGHT,
        pil=_SHIFT_Y,
        on_pil=on_pil.translate_y,
    ),
    _moving(
        "Rotate",
        geometric.rotate,
        (0.0, 30.0),
        "degrees",
        pil="Image.rotate",
        on_pil=on_pil.rotate,
    ),
    _stretch(
        "AutoContrast",
        color.auto_contrast,
        pil="ImageOps.autocontrast",
        on_pil=ImageOps.autocontrast,
    ),
    _curve("Invert", color.invert, pil="ImageOps.invert", on_pil=ImageOps.invert),
    _stretch(
        "Equalize", color.equalize, pil="ImageOps.equalize", on_pil=ImageOps.equalize
    ),
    _curve(
        "Solarize",
        color.solarize,
        (0.0, 255.0),
        _FIRST_LEVEL,
        256.0,
        "ImageOps.solarize",
        on_pil.solarize,
    ),
    _curve(
        "Posterize",
        color.posterize,
        (0.0, 8.0),
        "bits kept",
        8.0,
        "ImageOps.posterize",
        on_pil.posterize,
    ),
    _blend(
        "Contrast",
        color.mean_gray,
        *_FACTORS,
        "ImageEnhance.Contrast",
        Enhancer(ImageEnhance.Contrast),  # type: ignore[arg-type]
    ),
    _blend(
        "Color",
        color.gray,
        *_FACTORS,
        "ImageEnhance.Color",
        Enhancer(ImageEnhance.Color),  # type: ignore[arg-type]
    ),
    _blend_any(
        "Brightness",
        color.black,
        *_FACTORS,
        "ImageEnhance.Brightness",
        Enhancer(ImageEnhance.Brightness),
    ),
    _blend_any(
        "Sharpness",
        color.smooth,
        *_FACTORS,
        "ImageEnhance.Sharpness",
        Enhancer(ImageEnhance.Sharpness),
    ),
    _cover(
        "Cutout",
        geometric.cutout,
        (0.0, 0.2),
        _SIDE,
        0.0,
        "ImageDraw.rectangle, filled",
        on_pil.cutout,
    ),
)

OPERATIONS: Mapping[str, Operation] = MappingProxyType({row.name: row for row in _ROWS})
"""The 15 operations of the paper, by name, without registered ones."""
