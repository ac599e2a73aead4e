"""Search spaces of several kinds of operations, and draws from them in which every
operation occurs.

The own operations are strict: they refuse a magnitude that is not theirs.
"""

import torch
from random_inputs import magnitudes_for, seeded
from torch import Tensor

from hba.operations import OPERATIONS, Operation
from hba.operations.drawing import SIGN
from hba.policy.draw import BatchSample, draw_with_trace
from hba.policy.space import SearchSpace

SHADES = (0.9, 0.6, 0.3)


def shade(images: Tensor, step: Tensor) -> Tensor:
    """Darker by a table, which has no entry for a magnitude outside [2, 4]."""
    assert ((step >= 2) & (step <= 4)).all()
    factor = images.new_tensor(SHADES)[step.round().long() - 2]
    return images * factor[:, None, None, None]


def bar(images: Tensor, share: Tensor, fill: Tensor, position: Tensor) -> Tensor:
    """Columns from the place on, to the right, or to the left for a negative share."""
    assert ((share.abs() >= 0.25) & (share.abs() <= 0.5)).all()
    width = images.shape[3]
    beyond = (
        torch.arange(width, device=images.device)
        - (position[:, 0] * width).floor()[:, None]
    ) / width
    covered = (beyond * share[:, None] >= 0) & (beyond.abs() <= share.abs()[:, None])
    return torch.where(covered[:, None, None, :], fill[:, None, None], images)


def mirror(images: Tensor) -> Tensor:
    return images.flip(3)


OWN = (
    Operation("Shade", shade, (2.0, 4.0), "row of the table"),
    Operation(
        "Bar",
        bar,
        (0.25, 0.5),
        "share of the width",
        drawing=SIGN,
        uses_fill=True,
        n_uniforms=2,
    ),
    Operation("Mirror", mirror),
)

BILINEAR = tuple(
    operation.with_interpolation("bilinear") for operation in OPERATIONS.values()
)
TWO_INTERPOLATIONS = (
    OPERATIONS["Rotate"],
    OPERATIONS["ShearX"].with_interpolation("bilinear"),
    OPERATIONS["TranslateY"],
    OPERATIONS["Invert"],
    OPERATIONS["Contrast"],
)

SPACES = {
    "nearest": SearchSpace(),
    "bilinear": SearchSpace(BILINEAR),
    "nearest and bilinear": SearchSpace(TWO_INTERPOLATIONS),
    "own operations": SearchSpace((*OWN, *OPERATIONS.values())),
    "only own operations": SearchSpace(OWN, copies=1),
    "up to 4 operations": SearchSpace(
        (*OPERATIONS.values(), *OWN), count_probabilities=(0.1, 0.2, 0.2, 0.2, 0.3)
    ),
}


def space_of_one(operation: Operation) -> SearchSpace:
    """Every image gets this operation, if it fires."""
    return SearchSpace((operation,), copies=1, count_probabilities=(0.0, 1.0))


def random_values(space: SearchSpace, n_images: int, seed: int) -> Tensor:
    """A row for each image: magnitudes uniform in their ranges, probabilities 0.5."""
    low, high = torch.tensor(space.ranges).unbind(1)
    values = low + (high - low) * torch.rand(n_images, space.n, generator=seeded(seed))
    values[:, [name.endswith("probability") for name in space.names]] = 0.5
    return values


def mixed_draw(space: SearchSpace, n_images: int, seed: int) -> BatchSample:
    """Every operation occurs, and images without any."""
    draw = draw_with_trace(
        space, random_values(space, n_images, seed), n_images, seeded(seed + 1)
    )[0]
    drawn = {
        slot // space.copies for slot in draw.slots.flatten().tolist() if slot >= 0
    }
    assert drawn == set(range(len(space.operations)))
    assert (draw.slots < 0).all(dim=1).any()
    return draw


def draw_of_one(operation: Operation, n_images: int, seed: int) -> BatchSample:
    """The operation on every image of a batch, for space_of_one: random magnitudes with
    both signs, random places.
    """
    return BatchSample(
        slots=torch.zeros(n_images, 1, dtype=torch.long),
        magnitudes=magnitudes_for(operation, n_images, seed)[:, None],
        positions=torch.rand(n_images, 1, 2, generator=seeded(seed)),
    )


def rows_of(draw: BatchSample, images: slice) -> BatchSample:
    return BatchSample(
        draw.slots[images], draw.magnitudes[images], draw.positions[images]
    )


def fill_of(images: Tensor) -> Tensor:
    return torch.tensor([0.1, 0.5, 0.9][: images.shape[1]]).to(images)
