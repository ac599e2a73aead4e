"""The policy on one PIL image: the draw of hba/policy/draw.py in plain numbers, and PIL for the pixels.

For an image on its own, PyTorch's calls would cost many times what the image does.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from PIL import Image
from torchvision.transforms.v2 import functional as TF

from hba.operations import Operation
from hba.policy.space import SearchSpace


class Drawn(NamedTuple):
    """An operation to apply: magnitude with its sign, 0 where there is none; position (x, y) in [0, 1)."""

    operation: Operation
    magnitude: float
    position: tuple[float, float]


def draw_for_one(space: SearchSpace, values: Sequence[float], generator: torch.Generator | None = None) -> list[Drawn]:
    """What draw_operations draws for a batch of one image with the same generator on the CPU; values (n,)."""
    n, most = space.n_slots, space.max_count
    uniform = torch.rand(2 * n + 1 + 3 * most, generator=generator).tolist()
    fires, keys, count, signs, places = (
        uniform[:n],
        uniform[n : 2 * n],
        uniform[2 * n],
        uniform[2 * n + 1 :][:most],
        uniform[2 * n + 1 + most :],
    )
    limit = sum(count >= bound for bound in space.count_limits)
    slots = space.slots
    fired = [slot for slot in range(n) if fires[slot] < values[slots[slot].probability]]
    drawn = []
    for step, number in enumerate(sorted(fired, key=keys.__getitem__)[:limit]):
        slot = slots[number]
        magnitude = 0.0 if slot.magnitude is None else values[slot.magnitude]
        is_negated = slot.operation.signed and signs[step] < 0.5
        position = (places[2 * step], places[2 * step + 1])
        drawn.append(Drawn(slot.operation, -magnitude if is_negated else magnitude, position))
    return drawn


def apply_to_pil(drawn: Sequence[Drawn], image: Image.Image, fill: tuple[float, ...]) -> Image.Image:
    """Do what was drawn to an image of mode L or RGB; a new image. fill in [0, 1], one number per channel.

    An operation that knows nothing of PIL images gets a batch of one. An image without a pixel is copied.
    """
    if 0 in image.size:
        return image.copy()
    levels = tuple(round(255 * channel) for channel in fill)
    result = image
    for operation, magnitude, position in drawn:
        if operation.on_pil is not None:
            result = operation.apply_to_pil(result, magnitude, levels, position)
        else:
            batch = TF.pil_to_tensor(result)[None].float() / 255
            changed = operation(
                batch, torch.tensor([magnitude]), fill=torch.tensor(fill), position=torch.tensor([position])
            )
            result = TF.to_pil_image(changed[0].mul(255).round().clamp(0, 255).to(torch.uint8), mode=image.mode)
    return image.copy() if result is image else result
