"""Numbers of what a step does, in an order that kernels.py relies on: what moves pixels, what gives levels, what gives
values."""

NOTHING = -1
WARP, CUTOUT = 0, 1
INVERT, SOLARIZE, POSTERIZE, AUTO_CONTRAST, EQUALIZE = 2, 3, 4, 5, 6
BRIGHTNESS, CONTRAST, COLOR, SHARPNESS = 7, 8, 9, 10
