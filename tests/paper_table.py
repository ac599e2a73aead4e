"""Table 9 of the paper, typed from its page."""

PAPER_RANGES = {
    "ShearX": (0.0, 0.3),
    "ShearY": (0.0, 0.3),
    "TranslateX": (0.0, 0.45),
    "TranslateY": (0.0, 0.45),
    "Rotate": (0.0, 30.0),
    "AutoContrast": None,
    "Invert": None,
    "Equalize": None,
    "Solarize": (0.0, 255.0),
    "Posterize": (0.0, 8.0),
    "Contrast": (0.1, 1.9),
    "Color": (0.1, 1.9),
    "Brightness": (0.1, 1.9),
    "Sharpness": (0.1, 1.9),
    "Cutout": (0.0, 0.2),
}
"""Range of the magnitude, in the order of the columns; None for an operation without
magnitude.
"""
