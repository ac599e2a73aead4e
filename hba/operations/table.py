"""The 15 operations of the paper's Table 9, one row each."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from PIL import ImageEnhance, ImageOps

from hba.operations import codes, color, geometric, on_albumentations, on_pil
from hba.operations.drawing import SIGN
from hba.operations.on_pil import Enhancer
from hba.operations.operation import Operation, PbaMagnitudes

PBA_SIDE_PIXELS = 32
"""PBA gives translations and Cutout in pixels, for images with this side."""

_moving = partial(
    Operation,
    identity=0.0,
    drawing=SIGN,
    uses_fill=True,
    moves_pixels=True,
    any_channels=True,
    kernel="nearest",
    code=codes.WARP,
)
_curve = partial(Operation, moves_pixels=False, any_channels=True, kernel="curve")
_stretch = partial(Operation, moves_pixels=False, any_channels=True, kernel="stretch")
_blend = partial(
    Operation,
    magnitude_range=(0.1, 1.9),
    unit="PIL enhancement factor",
    identity=1.0,
    moves_pixels=False,
    kernel="blend",
    # torchvision's RandAugment draws a sign. Here, the first copy is above 1 and the
    # second below.
    randaugment=(1.27, 0.73),
    pba=PbaMagnitudes(0.1, 1.9),
)

_ROWS = (
    _moving(
        "ShearX",
        geometric.shear_x,
        magnitude_range=(0.0, 0.3),
        unit="shear factor",
        pil="Image.transform (1, m, 0, 0, 1, 0)",
        on_pil=on_pil.shear_x_by_pil,
        on_albumentations=on_albumentations.shear_x,
        randaugment=(0.09,),
        pba=PbaMagnitudes(0.0, 0.3),
    ),
    _moving(
        "ShearY",
        geometric.shear_y,
        magnitude_range=(0.0, 0.3),
        unit="shear factor",
        pil="Image.transform (1, 0, 0, m, 1, 0)",
        on_pil=on_pil.shear_y_by_pil,
        on_albumentations=on_albumentations.shear_y,
        randaugment=(0.09,),
        pba=PbaMagnitudes(0.0, 0.3),
    ),
    _moving(
        "TranslateX",
        geometric.translate_x,
        magnitude_range=(0.0, 0.45),
        unit="fraction of width",
        pil="Image.transform (1, 0, m W, 0, 1, 0)",
        on_pil=on_pil.translate_x_by_pil,
        on_albumentations=on_albumentations.translate_x,
        # Translations of torchvision's RandAugment reach 150/331 of the side.
        randaugment=(0.136,),
        pba=PbaMagnitudes(0.0, 10 / PBA_SIDE_PIXELS, PBA_SIDE_PIXELS),
    ),
    _moving(
        "TranslateY",
        geometric.translate_y,
        magnitude_range=(0.0, 0.45),
        unit="fraction of height",
        pil="Image.transform (1, 0, 0, 0, 1, m H)",
        on_pil=on_pil.translate_y_by_pil,
        on_albumentations=on_albumentations.translate_y,
        randaugment=(0.136,),
        pba=PbaMagnitudes(0.0, 10 / PBA_SIDE_PIXELS, PBA_SIDE_PIXELS),
    ),
    _moving(
        "Rotate",
        geometric.rotate,
        magnitude_range=(0.0, 30.0),
        unit="degrees",
        pil="Image.rotate",
        on_pil=on_pil.rotate_by_pil,
        on_albumentations=on_albumentations.rotate,
        randaugment=(9.0,),
        pba=PbaMagnitudes(0.0, 30.0, 1),
    ),
    _stretch(
        "AutoContrast",
        color.auto_contrast,
        pil="ImageOps.autocontrast",
        on_pil=ImageOps.autocontrast,
        on_albumentations=on_albumentations.auto_contrast,
        code=codes.AUTO_CONTRAST,
        randaugment=(),
    ),
    _curve(
        "Invert",
        color.invert,
        pil="ImageOps.invert",
        on_pil=ImageOps.invert,
        on_albumentations=on_albumentations.invert,
        code=codes.INVERT,
    ),
    _stretch(
        "Equalize",
        color.equalize,
        pil="ImageOps.equalize",
        on_pil=ImageOps.equalize,
        on_albumentations=on_albumentations.equalize,
        code=codes.EQUALIZE,
        randaugment=(),
    ),
    _curve(
        "Solarize",
        color.solarize,
        magnitude_range=(0.0, 255.0),
        unit="first grey level inverted",
        identity=256.0,
        pil="ImageOps.solarize",
        on_pil=on_pil.solarize_by_pil,
        on_albumentations=on_albumentations.solarize,
        code=codes.SOLARIZE,
        randaugment=(178.5,),
        pba=PbaMagnitudes(256.0, 0.0, 1),
    ),
    _curve(
        "Posterize",
        color.posterize,
        magnitude_range=(0.0, 8.0),
        unit="bits kept",
        identity=8.0,
        pil="ImageOps.posterize",
        on_pil=on_pil.posterize_by_pil,
        on_albumentations=on_albumentations.posterize,
        code=codes.POSTERIZE,
        randaugment=(7.0,),
        pba=PbaMagnitudes(4.0, 0.0, 1),
    ),
    _blend(
        "Contrast",
        color.mean_gray,
        pil="ImageEnhance.Contrast",
        on_pil=Enhancer(ImageEnhance.Contrast),  # type: ignore[arg-type]
        on_albumentations=on_albumentations.contrast,
        code=codes.CONTRAST,
    ),
    _blend(
        "Color",
        color.gray,
        pil="ImageEnhance.Color",
        on_pil=Enhancer(ImageEnhance.Color),  # type: ignore[arg-type]
        on_albumentations=on_albumentations.color,
        code=codes.COLOR,
    ),
    _blend(
        "Brightness",
        color.black,
        pil="ImageEnhance.Brightness",
        on_pil=Enhancer(ImageEnhance.Brightness),  # type: ignore[arg-type]
        on_albumentations=on_albumentations.brightness,
        any_channels=True,
        code=codes.BRIGHTNESS,
    ),
    _blend(
        "Sharpness",
        color.smooth,
        pil="ImageEnhance.Sharpness",
        on_pil=Enhancer(ImageEnhance.Sharpness),  # type: ignore[arg-type]
        on_albumentations=on_albumentations.sharpness,
        any_channels=True,
        code=codes.SHARPNESS,
    ),
    Operation(
        "Cutout",
        geometric.cutout,
        magnitude_range=(0.0, 0.2),
        unit="fraction of shorter side",
        identity=0.0,
        pil="ImageDraw.rectangle, filled",
        on_pil=on_pil.cutout_by_pil,
        on_albumentations=on_albumentations.cutout,
        uses_fill=True,
        n_uniforms=2,
        moves_pixels=False,
        any_channels=True,
        code=codes.CUTOUT,
        pba=PbaMagnitudes(0.0, 20 / PBA_SIDE_PIXELS, PBA_SIDE_PIXELS),
    ),
)

OPERATIONS: Mapping[str, Operation] = MappingProxyType({row.name: row for row in _ROWS})
"""The 15 operations of the paper, by name, without registered ones."""
