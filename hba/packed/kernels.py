"""Operations on the 8-bit pixels of an image, compiled by Numba. Each pixel is written
only once, after all steps.

An image is described by three arrays, and a step changes the smallest one that is
enough:
    levels: a byte for each pixel and channel, (C, N); N = H W.
    places: the source of each pixel, (N,): a pixel of the levels, or N + i for a pixel
        that step i has uncovered.
    Shear, translate, rotate and Cutout change only places, so pixels move once, for any
        number of steps.
    table: the value of a level, float32 in [0, 1], (C, 256 + S), with an entry for
        pixels uncovered by each of S steps.
    Point operations, Brightness and Contrast change only the table.
Color and Sharpness, whose result depends on more than a level, write new levels. If
another enhancer comes before the next rounding, they leave values, (C, N + S), instead
of levels and table: then the image is `free`. Numba's cache checks only a function's
own file for changes, so all compiled code is in this file. Explicit loops compile fast.
The arithmetic is as in hba/operations in float32, or with `as_pil` as in PIL in whole
grey levels.
"""

import numpy as np

from hba.operations.codes import (
    AUTO_CONTRAST,
    BRIGHTNESS,
    COLOR,
    CONTRAST,
    CUTOUT,
    EQUALIZE,
    INVERT,
    SHARPNESS,
    SOLARIZE,
    WARP,
)
from hba.operations.color import N_LEVELS
from hba.operations.geometric import FRACTION_BITS
from hba.packed.program import Scratch, State, compiled

PART = 4096
"""How many values to convert before checking that all are whole levels / 255."""
LANES = 4
"""Separate counters, so that an addition does not wait for the previous one."""
ZERO = np.float32(0)
ONE = np.float32(1)
FOUR = np.float32(4)
TOP = np.float32(255)
"""The brightest level."""
SMOOTHED = np.float32(255 / 13)
"""From the sum of Sharpness's weights, 13 for values in [0, 1], to levels."""
RED = np.float32(0.299)
GREEN = np.float32(0.587)
BLUE = np.float32(0.114)
"""Weights of luma."""


@compiled
def augment_all(
    images, results, width, codes, magnitudes, positions, maps, fill, as_pil
):
    """Apply the steps of each image. images: uint8 (B, C, N). results: uint8 if as_pil,
    else float32. codes int64, magnitudes float64 (B, S), positions float64 (B, S, 2),
    maps int64 (B, S, 6) in fixed point. fill: float32 (C,).
    """
    n_images, channels, n_pixels = images.shape
    n_steps = codes.shape[1]
    s = Scratch(
        np.empty((channels, n_pixels), np.uint8),
        np.empty((channels, n_pixels), np.uint8),
        np.empty((2, n_pixels), np.uint32),
        np.empty((channels, N_LEVELS + n_steps), np.float32),
        np.empty((channels, N_LEVELS + n_steps), np.uint8),
        np.empty((channels, n_pixels + n_steps), np.float32),
        np.empty(n_pixels, np.float32),
    )
    for image in range(n_images):
        levels = images[image]
        state = State(False, 0, True, False)
        begin(s, n_steps, fill, as_pil)
        for step in range(n_steps):
            code = codes[image, step]
            magnitude = magnitudes[image, step]
            if code in (WARP, CUTOUT):
                uncover(s, step, fill, as_pil)
                state = move(
                    s,
                    state,
                    width,
                    code,
                    magnitude,
                    positions[image, step],
                    maps[image, step],
                    step,
                )
            elif INVERT <= code <= CONTRAST:
                state = revalue(levels, s, state, code, magnitude, as_pil)
            elif code in (COLOR, SHARPNESS):
                write_values(levels, s, state, s.free)
                if code == COLOR:
                    color(s.free, n_pixels, np.float32(magnitude), as_pil)
                else:
                    sharpen(s.free, s.plane, width, np.float32(magnitude), as_pil)
                state = State(False, 0, True, True)
                if as_pil or is_rounded_next(codes[image], step):
                    round_all(s.free, s.levels)
                    levels = s.levels
                    state = State(False, 0, True, False)
                    begin(s, n_steps, fill, as_pil)
        if as_pil:
            write_levels(levels, s, state, results[image])
        else:
            write_values(levels, s, state, results[image])


@compiled
def begin(s, n_steps, fill, as_pil):
    """Set the table to the levels themselves. Entries that no pixel uses yet must be
    numbers too.
    """
    for channel in range(len(s.table)):
        for level in range(N_LEVELS):
            s.table[channel, level] = worth(level)
    for step in range(n_steps):
        uncover(s, step, fill, as_pil)


@compiled
def uncover(s, step, fill, as_pil):
    """Set the entry of pixels that the step uncovers to the fill colour."""
    for channel in range(len(fill)):
        value = worth(level_of(fill[channel])) if as_pil else fill[channel]
        s.table[channel, N_LEVELS + step] = value
        s.free[channel, len(s.plane) + step] = value


@compiled
def is_rounded_next(codes, step):
    """Whether the next step that reads values rounds them to whole levels."""
    for later in range(step + 1, len(codes)):
        if codes[later] >= INVERT:
            return codes[later] < BRIGHTNESS
    return False


@compiled
def level_of(value):
    """The nearest of the 256 grey levels; halves are rounded to even."""
    return np.int32(min(max(np.rint(value * TOP), ZERO), TOP))


@compiled
def worth(level):
    return np.float32(level) / TOP


@compiled
def round_all(values, levels):
    for channel in range(len(levels)):
        channel_values = values[channel]
        channel_levels = levels[channel]
        for index in range(len(channel_levels)):
            channel_levels[index] = level_of(channel_values[index])


@compiled
def move(s, state, width, code, magnitude, position, fixed_point_map, step):
    n_pixels = len(s.plane)
    before = s.places[state.now]
    after = s.places[1 - state.now]
    height = n_pixels // width
    if code == CUTOUT:
        cut_out(
            before, state.is_moved, height, width, magnitude, position, n_pixels + step
        )
        return State(True, state.now, state.is_plain, state.is_free)
    warp(after, height, width, fixed_point_map, n_pixels + step)
    if state.is_moved:
        for pixel in range(n_pixels):
            if after[pixel] < n_pixels:
                after[pixel] = before[after[pixel]]
    return State(True, 1 - state.now, state.is_plain, state.is_free)


@compiled
def warp(places, height, width, fixed_point_map, uncovered):
    """Set the source of each pixel to the pixel that contains its centre, as in
    hba/operations/geometric.py.
    """
    a, b, x0, d, e, y0 = fixed_point_map
    for y in range(height):
        row = places[y * width : (y + 1) * width]
        x_first = np.int32(x0 + b * y)
        y_first = np.int32(y0 + e * y)
        for x in range(width):
            # By default, Numba would compute in 64 bits, which halves the speed.
            column = np.int32(x_first + np.int32(a * x)) >> FRACTION_BITS
            line = np.int32(y_first + np.int32(d * x)) >> FRACTION_BITS
            is_inside = (column >= 0) & (column < width) & (line >= 0) & (line < height)
            row[x] = (
                np.uint32(np.int32(line * width) + column)
                if is_inside
                else np.uint32(uncovered)
            )


@compiled
def cut_out(places, is_moved, height, width, size, position, uncovered):
    """Cutout as in hba/operations/geometric.py."""
    if not is_moved:
        for pixel in range(height * width):
            places[pixel] = pixel
    side = np.int64(np.rint(size * min(height, width)))
    left = np.int64(np.floor(position[0] * width)) - side // 2
    top = np.int64(np.floor(position[1] * height)) - side // 2
    for y in range(max(top, 0), min(top + side, height)):
        for x in range(max(left, 0), min(left + side, width)):
            places[y * width + x] = uncovered


@compiled
def revalue(levels, s, state, code, magnitude, as_pil):
    """Change the values of levels, or the values of a free image."""
    values = s.free if state.is_free else s.table
    poorer = mean_gray(levels, s, state) if code == CONTRAST else ZERO
    for channel in range(len(values)):
        entries = values[channel]
        if code in (BRIGHTNESS, CONTRAST):
            factor = np.float32(magnitude)
            for index in range(len(entries)):
                entries[index] = blended(entries[index], poorer, factor, as_pil)
        elif code in (AUTO_CONTRAST, EQUALIZE):
            counts = level_counts(levels, s, state, channel)
            table = stretched(counts) if code == AUTO_CONTRAST else equalized(counts)
            for index in range(len(entries)):
                entries[index] = worth(table[level_of(entries[index])])
        else:
            for index in range(len(entries)):
                level = level_of(entries[index])
                entries[index] = worth(curved(level, code, magnitude))
    return State(state.is_moved, state.now, False, state.is_free)


@compiled
def curved(level, code, magnitude):
    """New level by the formulas of hba/operations/color.py."""
    if code == INVERT or (code == SOLARIZE and level >= magnitude):
        return 255 - level
    if code == SOLARIZE:
        return level
    dropped = 8 - np.int32(min(max(np.rint(magnitude), 1.0), 8.0))
    return (level >> dropped) << dropped


@compiled
def level_counts(levels, s, state, channel):
    """Number of pixels with each level, (256,)."""
    channel_levels = levels[channel]
    n_pixels = len(channel_levels)
    counts = np.zeros(N_LEVELS, np.int64)
    entries = np.zeros((LANES, s.table.shape[1]), np.uint32)
    places = s.places[state.now]
    table = s.table[channel]
    if state.is_free:
        values = s.free[channel]
        for pixel in range(n_pixels):
            source = places[pixel] if state.is_moved else np.uint32(pixel)
            counts[level_of(values[source])] += 1
        return counts
    if state.is_moved:
        for pixel in range(n_pixels):
            place = places[pixel]
            is_inside = place < n_pixels
            entry = channel_levels[place] if is_inside else N_LEVELS + place - n_pixels
            entries[pixel % LANES, entry] += 1
    else:
        for pixel in range(n_pixels):
            entries[pixel % LANES, channel_levels[pixel]] += 1
    for entry in range(len(table)):
        counts[level_of(table[entry])] += (
            entries[0, entry]
            + entries[1, entry]
            + entries[2, entry]
            + entries[3, entry]
        )
    return counts


@compiled
def stretched(counts):
    """New levels (256,), in float64 like PIL.ImageOps.autocontrast."""
    table = np.empty(N_LEVELS, np.int32)
    lowest = 0
    highest = N_LEVELS - 1
    while counts[lowest] == 0:
        lowest += 1
    while counts[highest] == 0:
        highest -= 1
    scale = 255.0 / max(highest - lowest, 1)
    for level in range(N_LEVELS):
        table[level] = (
            min(max(np.trunc(level * scale - lowest * scale), 0.0), 255.0)
            if highest > lowest
            else level
        )
    return table


@compiled
def equalized(counts):
    """New levels (256,), in whole numbers like PIL.ImageOps.equalize."""
    table = np.empty(N_LEVELS, np.int32)
    brightest = N_LEVELS - 1
    while counts[brightest] == 0:
        brightest -= 1
    step = (counts.sum() - counts[brightest]) // 255
    darker = step // 2
    for level in range(N_LEVELS):
        table[level] = min(darker // step, 255) if step > 0 else level
        darker += counts[level]
    return table


@compiled
def blended(value, poorer, factor, as_pil):
    """Blend as in hba/operations/color.py:blend; or in whole levels, truncated, as in
    PIL.Image.blend.
    """
    if not as_pil:
        return min(max(value * factor + poorer * (ONE - factor), ZERO), ONE)
    level = np.float32(level_of(poorer))
    mixed = level + factor * (np.float32(level_of(value)) - level)
    return worth(np.int32(min(max(mixed, ZERO), TOP)))


@compiled
def mean_gray(levels, s, state):
    """Mean grey level as in hba/operations/color.py."""
    if state.is_free or state.is_moved or not state.is_plain:
        write_levels(levels, s, state, s.shown)
        levels = s.shown
    total = 0
    n_pixels = levels.shape[1]
    if len(levels) == 1:
        for pixel in range(n_pixels):
            total += levels[0, pixel]
    else:
        for pixel in range(n_pixels):
            total += whole_luma(levels[0, pixel], levels[1, pixel], levels[2, pixel])
    return worth(np.floor(total / n_pixels + 0.5))


@compiled
def whole_luma(red, green, blue):
    """Luma as in PIL's mode L."""
    return (
        np.int32(
            np.int32(red) * 19595
            + np.int32(green) * 38470
            + np.int32(blue) * 7471
            + (1 << 15)
        )
        >> 16
    )


@compiled
def color(values, n_pixels, factor, as_pil):
    """Color as in hba/operations/color.py, or as in PIL with PIL's luma, which is a
    whole level.
    """
    red = values[0]
    if len(values) == 1:
        for pixel in range(n_pixels):
            red[pixel] = blended(red[pixel], red[pixel], factor, as_pil)
        return
    green = values[1]
    blue = values[2]
    for pixel in range(n_pixels):
        if as_pil:
            gray = worth(
                whole_luma(
                    level_of(red[pixel]), level_of(green[pixel]), level_of(blue[pixel])
                )
            )
        else:
            gray = red[pixel] * RED + green[pixel] * GREEN + blue[pixel] * BLUE
        red[pixel] = blended(red[pixel], gray, factor, as_pil)
        green[pixel] = blended(green[pixel], gray, factor, as_pil)
        blue[pixel] = blended(blue[pixel], gray, factor, as_pil)


@compiled
def sharpen(values, plane, width, factor, as_pil):
    """Sharpness as in hba/operations/color.py, with sums in the same order; outermost
    pixels are their own mean.
    """
    for channel in range(len(values)):
        sharpened = values[channel]
        for pixel in range(len(plane)):
            value = sharpened[pixel]
            plane[pixel] = value
            sharpened[pixel] = blended(value, value, factor, as_pil)
        for start in range(width, len(plane) - width, width):
            above = plane[start - width : start]
            here = plane[start : start + width]
            below = plane[start + width : start + 2 * width]
            result = sharpened[start : start + width]
            for x in range(1, width - 1):
                left = above[x - 1] + here[x - 1] + below[x - 1]
                middle = above[x] + here[x] + below[x]
                right = above[x + 1] + here[x + 1] + below[x + 1]
                weighted = left + middle + right + here[x] * FOUR
                smooth = np.rint(weighted * SMOOTHED) / TOP
                result[x] = blended(here[x], smooth, factor, as_pil)


@compiled
def write_values(levels, s, state, result):
    """Write the value of every pixel, at its current place."""
    places = s.places[state.now]
    n_pixels = levels.shape[1]
    for channel in range(len(levels)):
        current = result[channel, :n_pixels]
        values = s.free[channel]
        if not state.is_free:
            look_up(s.table[channel], levels[channel], places, state.is_moved, current)
            continue
        for pixel in range(n_pixels):
            s.plane[pixel] = values[places[pixel]] if state.is_moved else values[pixel]
        for pixel in range(n_pixels):
            current[pixel] = s.plane[pixel]


@compiled
def write_levels(levels, s, state, result):
    """Write the level of every pixel."""
    places = s.places[state.now]
    n_pixels = levels.shape[1]
    if not state.is_free:
        round_all(s.table, s.table_levels)
    for channel in range(len(result)):
        shown = result[channel]
        if state.is_free:
            values = s.free[channel]
            for pixel in range(n_pixels):
                source = places[pixel] if state.is_moved else np.uint32(pixel)
                shown[pixel] = level_of(values[source])
        elif state.is_plain and not state.is_moved:
            for pixel in range(n_pixels):
                shown[pixel] = levels[channel, pixel]
        else:
            table = s.table_levels[channel]
            look_up(table, levels[channel], places, state.is_moved, shown)


@compiled
def look_up(table, levels, places, is_moved, result):
    """Write the table's entry for each pixel: its value or its level."""
    n_pixels = len(levels)
    if is_moved:
        for pixel in range(n_pixels):
            place = places[pixel]
            result[pixel] = (
                table[levels[place]]
                if place < n_pixels
                else table[N_LEVELS + place - n_pixels]
            )
    else:
        for pixel in range(n_pixels):
            result[pixel] = table[levels[pixel]]


@compiled
def to_levels(values, levels):
    """Convert float32 (N,) to levels (N,). Return False as soon as a value is not
    exactly level / 255.
    """
    for start in range(0, len(values), PART):
        part_values = values[start : start + PART]
        part_levels = levels[start : start + PART]
        n_others = 0
        for index in range(len(part_values)):
            level = np.uint8(level_of(part_values[index]))
            part_levels[index] = level
            n_others += worth(level) != part_values[index]
        if n_others:
            return False
    return True
