"""Pictures of a policy's effect on images of a run: of each operation alone, and of all
together.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from hba.operations import Operation, find_operation
from hba.operations.drawing import FIXED, SIGN
from hba.operations.operation import MIXING, SYMMETRY, WALK
from hba.policy.class_moves import name_of_move
from hba.policy.draw import BatchSample
from hba.policy.module import Policy
from hba.report.samples import Samples
from hba.schedule.pictures import augmented_copies
from hba.schedule.schedule import Schedule
from hba.schedule.summary import copies_of, reach

LEAST_SHARE = 0.03
"""Share of images to which an operation must be applied to be shown."""
N_DRAWN, N_RANKED = 4096, 41
"""Number of draws of the policy, and of draws of an operation to choose a typical and a
strong one from.
"""
STRONG = 0.9
"""Quantile of a strong draw: one in ten draws is stronger."""
N_TOGETHER = 6


class Picture(NamedTuple):
    """image: float (C, H, W) in [0, 1]. label: its caption. note: the magnitude, or
    another remark; may be empty.
    """

    label: str
    image: Tensor
    note: str = ""


class Example(NamedTuple):
    """detail: the share of images or batches, and the largest change if the change of
    each image is drawn from it.
    """

    name: str
    detail: str
    class_name: str
    pictures: tuple[Picture, ...]


def operation_examples(
    schedule: Schedule, samples: Samples, native: Samples | None
) -> Iterator[Example]:
    """Examples of operations on more than LEAST_SHARE of the images in the last epoch,
    from the most frequent one, without symmetries that hold only for some classes.
    """
    schedule = _for_channels(schedule, samples)
    large = native or samples
    policy = schedule.without_regularizers().policy(schedule.epochs - 1)
    draw = policy.draw(N_DRAWN, torch.Generator().manual_seed(0))
    shares = reach(schedule, schedule.epochs - 1).shares
    moves = schedule.space.class_moves
    by_class = () if moves is None else moves.operations
    used = [
        operation
        for operation in schedule.space.operations
        if shares[operation.name] > LEAST_SHARE and operation.name not in by_class
    ]
    for place, operation in enumerate(
        sorted(
            used,
            key=lambda operation: (operation.stage == MIXING, -shares[operation.name]),
        )
    ):
        number = place % len(large.images)
        largest = ""
        if (
            operation.stage not in (WALK, MIXING)
            and operation.magnitude_range is not None
        ):
            largest = (
                f"; {operation.unit}:"
                f" {copies_of(schedule, operation, 'magnitude')[-1].mean():.3g}"
            )
        if operation.stage == MIXING:
            noun = "batches"
            changed = _mixed(schedule, operation, large, number)
        else:
            chosen = _typical_and_strong(
                policy, operation, draw, samples.images[number]
            )
            noun = "images"
            changed = _changed(policy, operation, chosen, large.images[number])
        if changed:
            detail = f"{100 * shares[operation.name]:.0f} % of the {noun}{largest}"
            pictures = (Picture("original", large.images[number] / 255), *changed)
            yield Example(operation.name, detail, large.class_names[number], pictures)


def class_examples(
    schedule: Schedule, samples: Samples, native: Samples | None
) -> Iterator[Example]:
    """The effect of symmetries that hold only for some classes, on images of these."""
    moves = schedule.space.class_moves
    if moves is None:
        return
    large = native or samples
    results = moves.names()
    for image, class_name in zip(large.images, large.class_names, strict=True):
        pixels = image[None].float() / 255
        pictures = [Picture("original", pixels[0], class_name)]
        for name, of_operation in results.items():
            operation = find_operation(name)
            for number, of_move in enumerate(of_operation):
                if class_name not in of_move:
                    continue
                uniform = (number + 0.5) / operation.n_moves
                position = pixels.new_full((1, operation.n_uniforms), uniform)
                (moved,) = operation(pixels, position=position)
                label = name_of_move(name, number, operation.n_moves)
                pictures.append(Picture(label, moved, of_move[class_name]))
        if len(pictures) > 1:
            yield Example(class_name, "", class_name, tuple(pictures))


def _for_channels(schedule: Schedule, samples: Samples) -> Schedule:
    """The schedule with a fill for the channels of the samples, which are the first
    channels of the images.
    """
    return dataclasses.replace(schedule, fill=schedule.fill[: len(samples.images[0])])


def _has_strength(operation: Operation) -> bool:
    """Whether the magnitude of an image is that of the policy, apart from a sign."""
    return operation.stage == WALK and operation.drawing in (FIXED, SIGN)


def _typical_and_strong(
    policy: Policy, operation: Operation, draw: BatchSample, image: Tensor
) -> BatchSample:
    """Two draws of an operation alone, or one for a symmetry: the median draw, and one
    that only one in ten exceeds.

    Draws are ranked by magnitude on the walk; others by how much they change the image
    (C, H, W), uint8.
    """
    slots = [
        number
        for number, slot in enumerate(policy.space.slots)
        if slot.operation.name == operation.name
    ]
    images, steps = (
        torch.isin(draw.slots, torch.tensor(slots)).nonzero()[:N_RANKED].unbind(1)
    )
    alone = torch.full_like(draw.slots[images], -1)
    rows = torch.arange(len(images))
    alone[rows, steps] = draw.slots[images, steps]
    drawn = BatchSample(alone, draw.magnitudes[images], draw.positions[images])
    before = (image.float() / 255).expand(len(images), *image.shape)
    change = (policy.replay(before, drawn) - before).abs().mean(dim=(1, 2, 3)).numpy()
    magnitudes = drawn.magnitudes[rows, steps].tolist()
    strength = [
        operation.strength(magnitude) if _has_strength(operation) else 0.0
        for magnitude in magnitudes
    ]
    order = np.lexsort((change, np.array(strength)))
    typical, strong = (
        int(order[int(place * (len(order) - 1))]) for place in (0.5, STRONG)
    )
    # A policy without a spread has one strength, in both directions.
    is_one = _has_strength(operation) and math.isclose(
        strength[typical], strength[strong]
    )
    shown = (
        [typical]
        if operation.stage == SYMMETRY or (is_one and strength[strong] > 0)
        else [typical, strong]
    )
    return BatchSample(
        drawn.slots[shown], drawn.magnitudes[shown], drawn.positions[shown]
    )


def _changed(
    policy: Policy, operation: Operation, chosen: BatchSample, image: Tensor
) -> list[Picture]:
    after = [
        *policy.replay((image.float() / 255).expand(len(chosen), *image.shape), chosen)
    ]
    shown = after[:1] if torch.equal(after[0], after[-1]) else after
    changed_images = []
    for number, changed in enumerate(shown):
        step = int((chosen.slots[number] >= 0).nonzero()[0])
        note = ""
        if torch.equal((255 * changed).round(), image.float()):
            note = "no change on this image"
        elif _has_strength(operation) and operation.magnitude_range is not None:
            note = (
                f"{operation.unit or 'magnitude'}:"
                f" {float(chosen.magnitudes[number, step]) + 0.0:.3g}"
            )
        changed_images.append(
            Picture(
                "after" if len(shown) == 1 else ("typical", "strong")[number],
                changed,
                note,
            )
        )
    return changed_images


def _mixed(
    schedule: Schedule, operation: Operation, samples: Samples, number: int
) -> list[Picture]:
    """The next image of another class, and a mixture with the median of the larger
    share; empty for an alpha of 0.
    """
    alpha = float(copies_of(schedule, operation, "magnitude")[-1, 0])
    names = samples.class_names
    if alpha <= 0:
        return []
    others = [(number + after) % len(names) for after in range(1, len(names) + 1)]
    other = next((one for one in others if names[one] != names[number]), others[0])
    shares = np.random.default_rng(0).beta(alpha, alpha, 999)
    own = float(np.median(np.maximum(shares, 1 - shares)))
    image, second = (samples.images[one] / 255 for one in (number, other))
    mixed = own * image + (1 - own) * second
    if operation.name == "CutMix":
        mixed = image.clone()
        (height, tall), (width, wide) = (
            (length, int(length * (1 - own) ** 0.5)) for length in image.shape[1:]
        )
        box = (
            ...,
            slice((height - tall) // 2, (height + tall) // 2),
            slice((width - wide) // 2, (width + wide) // 2),
        )
        mixed[box] = second[box]
    percent = round(100 * own)
    label = f"{percent} % {names[number]}, {100 - percent} % {names[other]}"
    return [Picture(names[other], second), Picture("mixed", mixed, label)]


def together(
    schedule: Schedule, samples: Samples, native: Samples | None
) -> list[tuple[str, str, Tensor, Tensor | None]]:
    """N_TOGETHER images as `hba apply` augments them in the last epoch: class,
    operations, image, and the image at the training size with the same draws, if its
    size differs.
    """
    schedule = _for_channels(schedule, samples)
    chosen = [number % len(samples.images) for number in range(N_TOGETHER)]

    def made(of: Samples) -> Sequence[tuple[Tensor, str]]:
        images = [of.images[number] for number in chosen]
        epoch = schedule.epochs - 1
        masks = None if of.masks is None else [of.masks[number] for number in chosen]
        return [
            copies[0]
            for copies in augmented_copies(
                schedule, images, epoch=epoch, n_copies=1, seed=0, masks=masks
            )
        ]

    small = (
        [None] * N_TOGETHER if native is None else [image for image, _ in made(samples)]
    )
    names = [samples.class_names[number] for number in chosen]
    return [
        (name, by, image, little)
        for name, (image, by), little in zip(
            names, made(native or samples), small, strict=True
        )
    ]
