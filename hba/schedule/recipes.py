"""Recipes: augmentations that people choose by hand, as schedules of one epoch, by
name.

The horizontal flip is torchvision's RandomHorizontalFlip. The crop of `photo`,
`oriented`, `overhead` and `overhead-randaugment` shifts every image by at most an
eighth of its side, 4 of 32 pixels, as is usual for CIFAR. RandAugment,
TrivialAugment, AutoAugment, and the RandAugment of timm are fitted
(hba/schedule/fit.py): an image gets each operation as often as in the original, and as
many operations, but pairs of operations differ, and so do magnitudes that vary. Each
function below says by how much. For pairs, d is the total variation distance between
the distributions of an image's operations in their order; for magnitudes, D is the
largest difference of the distribution functions.

Importing it does not import PyTorch, because lists of names do not need it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from functools import partial
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

from hba.operations import STAGED
from hba.policy.space import SearchSpace

if TYPE_CHECKING:
    from hba.schedule.fit import SubPolicy
    from hba.schedule.schedule import Schedule

RECIPE = "recipe"
"""Key of a recipe's name in the provenance. Trainings with one fill uncovered pixels
with their images' mean colour.
"""
N_LEVELS = 64
"""Number of levels that represent the normal distribution of timm's magnitudes."""

KINDS = ("probability", "magnitude")
Stages = Mapping[str, tuple[float, float | None]]
"""Probability and magnitude, or None, of each operation outside the walk."""

FLIP: Stages = {"HorizontalFlip": (0.5, None)}
TURNS: Stages = {**FLIP, "VerticalFlip": (0.5, None), "QuarterTurn": (0.75, None)}
CROP: Stages = {"PaddedCrop": (1.0, 1 / 8)}
RESIZED_CROP: Stages = {"ResizedCrop": (1.0, 0.08)}
CROP_FLIP: Stages = {**FLIP, **RESIZED_CROP}
THREE_AUGMENT: Stages = {
    **FLIP,
    "PaddedCrop": (1.0, 4 / 224),
    "BrightnessJitter": (1.0, 0.3),
    "ContrastJitter": (1.0, 0.3),
    "Saturation": (1.0, 0.3),
}
TIMM: Stages = {
    **CROP_FLIP,
    "Erase": (0.25, 1 / 3),
    "Mixup": (0.5, 0.8),
    "CutMix": (1.0, 1.0),
}
LIGHT_MAGNITUDE = 5
"""The magnitude of `randaugment-light`, from 0 to 30; torchvision's default is 9."""
TIMM_LEVEL = 9.0
"""The level m9."""
TIMM_DEVIATION = 0.5
"""The standard deviation mstd0.5 of levels."""
TIMM_MOST = 10.0
"""The largest level of timm."""
_ENHANCED = (lambda level: 1 + 0.9 * level, lambda level: max(0.1, 1 - 0.9 * level))
TIMM_MAGNITUDES: Mapping[str, tuple[Callable[[float], float], ...]] = {
    **dict.fromkeys(("AutoContrast", "Equalize", "Invert", "SolarizeAdd"), ()),
    "Rotate": (lambda level: 30 * level,),
    "Posterize": (lambda level: max(1.0, 4.0 - int(4 * level)),),
    "Solarize": (lambda level: 256.0 - int(256 * level),),
    **dict.fromkeys(("Color", "Contrast", "Brightness", "Sharpness"), _ENHANCED),
    **dict.fromkeys(("ShearX", "ShearY"), (lambda level: 0.3 * level,)),
    **dict.fromkeys(("TranslateX", "TranslateY"), (lambda level: 0.45 * level,)),
}
"""Magnitudes of each operation at a level in [0, 1], without sign; two are equally
likely. hba lacks SolarizeAdd.
"""


class Recipe(NamedTuple):
    """make: returns its schedule. text: what it does, and where it is from."""

    make: Callable[[], Schedule]
    text: str


def none() -> Schedule:
    """One operation with probability 0, because a space needs one."""
    return recipe_of("none", {"HorizontalFlip": (0.0, None)})


def crop_flip() -> Schedule:
    """RandomResizedCrop and RandomHorizontalFlip of torchvision with their defaults, as
    is usual in fine-tuning.

    Ref: PyTorch's transfer learning tutorial, transformers'
    run_image_classification.py, torchvision's references/classification/presets.py and
    timm's create_transform: all with a scale of (0.08, 1). torchvision draws area and
    ratio again if a crop does not fit, so it has fewer large crops: D of the area is
    0.12, its mean 0.48 of the image, here 0.54. Crops of up to 3/4 of the area are
    drawn alike. Here, the ratio is relative to the image's.
    """
    return recipe_of("crop-flip", CROP_FLIP)


def of_torchvision(
    policy: str, name: str | None = None, stages: Stages | None = None
) -> Schedule:
    """One of torchvision's policies, with operations of other stages. name: of the
    recipe; by default, the policy's.

    RandAugment: d = 0.032, because 4.0 % of pairs repeat an operation instead of 7.7 %;
    magnitudes are exact. TrivialAugment has no pairs; D is at most 0.08, and 0.12 for
    Posterize. AutoAugment applies operations in fixed pairs: d is 0.30, 0.28 and 0.38
    for ImageNet, CIFAR-10 and SVHN, D at most 0.42. Shifts are rounded, not truncated.
    """
    from hba.schedule.torchvision_policies import policy_of_torchvision

    return recipe_of(name or policy, stages or {}, policy_of_torchvision(policy))


def light_randaugment() -> Schedule:
    """torchvision's RandAugment with about half of its default magnitude, for trainings
    of few epochs. AutoContrast and Equalize have no magnitude.

    It is fitted as well as RandAugment: d = 0.032, and magnitudes are exact.
    """
    from torchvision.transforms import RandAugment

    from hba.schedule.torchvision_policies import policy_of_transform

    policy = policy_of_transform(RandAugment(magnitude=LIGHT_MAGNITUDE))
    return recipe_of("randaugment-light", {}, policy)


def three_augment() -> Schedule:
    """3-Augment of DeiT III (Touvron et al. 2022, arXiv 2204.07118): exactly one of
    grey, solarize and blur, equally likely, then colour jitter; before them, flip and
    crop.

    Ref: github.com/facebookresearch/deit, augment.py, with the options of fine-tuning
    in README_revenge.md: --ThreeAugment --src --color-jitter 0.3. The blur is PIL's
    SMOOTH, whose standard deviation is 0.68 pixels, instead of a Gaussian's from U(0.1,
    2) pixels. The crop shifts by up to 4 of 224 pixels and uncovers the fill colour
    instead of reflected pixels. Brightness, contrast and saturation change in this
    order instead of a random one. All else is exact, and CutMix is no part of it.
    """
    from hba.schedule.fit import Choice, SubPolicy

    one_of_three = (
        Choice("Color", 1 / 3, 0.0),
        Choice("Solarize", 1 / 3, 128.0),
        Choice("Sharpness", 1 / 3, 0.0),
    )
    return recipe_of("three-augment", THREE_AUGMENT, (SubPolicy((one_of_three,)),))


def timm() -> Schedule:
    """rand-m9-mstd0.5-inc1 with Mixup, CutMix, random erasing, flip and crop, as is
    usual in trainings with timm.

    Ref: github.com/facebookresearch/deit, main.py: mixup 0.8, cutmix 1.0, mixup-prob
    1.0, mixup-switch-prob 0.5, reprob 0.25, recount 1; the defaults of timm's
    create_transform: scale (0.08, 1), hflip 0.5, no color jitter besides RandAugment.
    SolarizeAdd, one of the 15 operations, is left out; for all others, d = 0.008 and D
    is at most 0.09. Unlike in timm, an erased rectangle has the fill colour instead of
    noise, operations that move pixels are bilinear instead of bicubic, and Posterize
    keeps at least one bit.
    """
    return recipe_of("timm", TIMM, timm_randaugment(), "bilinear")


def recipe_of(
    name: str,
    stages: Stages,
    policy: tuple[SubPolicy, ...] = (),
    interpolation: str = "nearest",
) -> Schedule:
    """A recipe of operations of other stages, and of the fitted policy on the walk."""
    import numpy as np

    from hba.policy.module import GRAY
    from hba.schedule.schedule import Schedule

    operations = tuple(STAGED[stage] for stage in stages)
    numbers = {
        f"{stage}.{quantity}": number
        for stage, pair in stages.items()
        for quantity, number in zip(KINDS, pair, strict=True)
    }
    if not policy:
        space = SearchSpace(operations, count_probabilities=(1.0,))
        return Schedule(
            space,
            np.array([[numbers[column] for column in space.names]]),
            GRAY,
            {RECIPE: name},
        )
    walk = _fitted_walk(policy, interpolation)
    space = dataclasses.replace(
        walk.space, operations=(*operations, *walk.space.operations)
    )
    names = walk.space.names
    values, spread = (
        dict(zip(names, rows[0].tolist(), strict=True))
        for rows in (walk.values, walk.spread)
    )
    row = np.array([[{**numbers, **values}[column] for column in space.names]])
    widths = np.array([[spread.get(column, 0.0) for column in space.names]])
    return Schedule(space, row, GRAY, {RECIPE: name, **walk.provenance}, spread=widths)


@functools.cache
def _fitted_walk(policy: tuple[SubPolicy, ...], interpolation: str) -> Schedule:
    """The fitted policy. Recipes share it, and `hba auto` makes each of them several
    times.
    """
    from hba.policy.module import GRAY
    from hba.schedule.fit import fitted_schedule

    return fitted_schedule(policy, 1, GRAY, {}, interpolation=interpolation)


def timm_randaugment() -> tuple[SubPolicy, ...]:
    """rand-m9-mstd0.5-inc1: two of 15 operations, drawn with replacement, each applied
    with probability 0.5.

    Ref: timm/data/auto_augment.py (rand_augment_transform, LEVEL_TO_ARG).
    """
    from hba.schedule.fit import Choice, SubPolicy

    normal = NormalDist(TIMM_LEVEL, TIMM_DEVIATION)
    levels = [
        min(1.0, normal.inv_cdf((number + 0.5) / N_LEVELS) / TIMM_MOST)
        for number in range(N_LEVELS)
    ]
    chance = 0.5 / len(TIMM_MAGNITUDES)
    step = []
    for name, functions in TIMM_MAGNITUDES.items():
        magnitudes: list[float | None] = [
            function(level) for function in functions for level in levels
        ]
        magnitudes = magnitudes or [None]
        step += [
            Choice(name, chance / len(magnitudes), magnitude)
            for magnitude in magnitudes
        ]
    return (SubPolicy((tuple(step),) * 2),)


RECIPES: Mapping[str, Recipe] = {
    "none": Recipe(none, "nothing besides the baseline augmentation"),
    "flip": Recipe(
        partial(recipe_of, "flip", FLIP),
        "horizontal flip of half of the images, and nothing else",
    ),
    "crop": Recipe(
        partial(recipe_of, "crop", CROP),
        "crop by up to an eighth of the side, and nothing else",
    ),
    "resized-crop": Recipe(
        partial(recipe_of, "resized-crop", RESIZED_CROP),
        "resized crop of 8 to 100 % of the area, and nothing else",
    ),
    "crop-flip": Recipe(
        crop_flip,
        "resized crop of 8 to 100 % of the area, and horizontal flip",
    ),
    "randaugment": Recipe(
        partial(of_torchvision, "randaugment"),
        "RandAugment, with torchvision's defaults",
    ),
    "randaugment-light": Recipe(
        light_randaugment,
        "RandAugment with magnitude 5 instead of 9, for few epochs",
    ),
    "trivialaugment": Recipe(
        partial(of_torchvision, "trivialaugment"),
        "TrivialAugment as in torchvision, with shifts by up to a seventh of the side",
    ),
    "autoaugment": Recipe(
        partial(of_torchvision, "autoaugment-imagenet", "autoaugment"),
        "AutoAugment, with torchvision's policy for ImageNet",
    ),
    "photo": Recipe(
        partial(of_torchvision, "randaugment", "photo", {**FLIP, **CROP}),
        "horizontal flip, crop by up to an eighth of the side, and RandAugment",
    ),
    "oriented": Recipe(
        partial(of_torchvision, "randaugment", "oriented", CROP),
        "crop and RandAugment without a flip, for images in which left and right"
        " differ",
    ),
    "overhead": Recipe(
        partial(recipe_of, "overhead", {**TURNS, **CROP}),
        "flips, quarter turns and crop, for images without a right way up",
    ),
    "overhead-randaugment": Recipe(
        partial(
            of_torchvision, "randaugment", "overhead-randaugment", {**TURNS, **CROP}
        ),
        "flips, quarter turns, crop and RandAugment",
    ),
    "three-augment": Recipe(
        three_augment,
        "3-Augment of DeiT III: gray, solarized or blurred, with color jitter, flip and"
        " a small crop",
    ),
    "timm": Recipe(
        timm,
        "timm's rand-m9-mstd0.5-inc1, Mixup or CutMix, erasing, flip and resized crop",
    ),
}
