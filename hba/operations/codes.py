"""Numbers of the steps that hba/packed/kernels.py compiles.

Their order matters there: first the steps that move or cover pixels, then those that
give new grey levels, at last those that give values between them.
"""

WARP = 0
CUTOUT = 1
INVERT = 2
SOLARIZE = 3
POSTERIZE = 4
AUTO_CONTRAST = 5
EQUALIZE = 6
BRIGHTNESS = 7
CONTRAST = 8
COLOR = 9
SHARPNESS = 10
