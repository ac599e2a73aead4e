"""Does an exported file do what the schedule does? Its operations and its whole policy, beside hba's own on images."""

import json
import types
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from hba.errors import ScheduleError, SettingsError
from hba.exports.albumentations_file import FORMAT, N_VALUES, row_of, twice
from hba.exports.albumentations_leaves import LEAVES, is_grey
from hba.exports.compared import (
    N_DRAWS,
    PLACES,
    POSITIONS,
    WHOLE,
    Case,
    Checked,
    Draw,
    Levels,
    cases,
    compared,
    means_compared,
)
from hba.exports.targets import find_target
from hba.operations import Operation
from hba.operations.enhance import Blend
from hba.policy.module import Policy
from hba.schedule.file import parse
from hba.schedule.schedule import Schedule

Pairs = Iterator[tuple[Levels, Levels]]
COPIES = 8
"""Of an image in a batch."""


class Check(Protocol):
    """What a target's file is compared by."""

    def __call__(self, text: str, schedule: Schedule, images: Sequence[Image.Image]) -> tuple[Checked, ...]: ...


def check(text: str, to: str, schedule: Schedule, images: Sequence[Image.Image]) -> tuple[Checked, ...]:
    """What `export` gave for a target beside the schedule itself: each operation at several magnitudes, and draws.

    images: PIL images of mode L or RGB, at least one. Raises ScheduleError for a schedule file that does not load.
    """
    target = find_target(to)
    if not images:
        raise SettingsError("a check needs at least one image")
    taken = schedule if target.has_regularizers else schedule.without_regularizers()
    return CHECKS[to](text, taken, images)


def of_schedule_file(text: str, schedule: Schedule, images: Sequence[Image.Image]) -> tuple[Checked, ...]:
    """All numbers, bit for bit."""
    loaded = Schedule(**parse(text)._asdict())
    same = (
        loaded.space == schedule.space
        and loaded.fill == tuple(schedule.fill)
        and np.array_equal(loaded.values, schedule.values)
        and np.array_equal(loaded.spread, schedule.spread)
    )
    if not same:
        raise ScheduleError("the file that was written holds another schedule")
    return (Checked("all numbers", schedule.values.size + schedule.spread.size, 0.0, 0.0),)


def of_pil_file(text: str, schedule: Schedule, images: Sequence[Image.Image]) -> tuple[Checked, ...]:
    """A file with the operations on PIL images."""
    module = _module(text)
    by_operation = [
        compared(operation.name, _operation_on_pil(module, operation, schedule, images))
        for operation in schedule.space.operations
    ]
    return (*by_operation, compared(WHOLE, _policy_on_pil(module, schedule, images)))


def of_batch_file(text: str, schedule: Schedule, images: Sequence[Image.Image]) -> tuple[Checked, ...]:
    """A file with the operations on batches: each beside PIL's result, the policy beside hba's own on batches."""
    module = _module(text)
    by_operation = [
        compared(operation.name, _operation_on_batch(module, operation, schedule, images), _said_of(operation))
        for operation in schedule.space.operations
    ]
    return (*by_operation, compared(WHOLE, _policy_on_batches(module, schedule, images)))


def of_albumentations_file(text: str, schedule: Schedule, images: Sequence[Image.Image]) -> tuple[Checked, ...]:
    """A pipeline of albumentations: its transforms beside PIL's results, on images that have as many channels as the
    fill, or any where that is grey.

    Raises SettingsError where albumentations is not installed, or no image is such.
    """
    pipelines = find_albumentations()
    pipeline = pipelines.from_dict(json.loads(text))
    n_channels = 1 if is_grey(schedule.fill) else len(schedule.fill)
    fitting = [image for image in images if len(image.getbands()) >= n_channels]
    if not fitting:
        raise SettingsError("a check needs an image in colour, as the schedule's fill colour is")
    by_operation = [
        compared(operation.name, _operation_of_pipeline(pipelines, operation, schedule, fitting), leaf.said)
        if (leaf := LEAVES[operation.name]).is_compared
        else means_compared(operation.name, _draws_of_operation(pipelines, operation, schedule, fitting), leaf.said)
        for operation in schedule.space.operations
    ]
    row = row_of(schedule)
    spread = f", spread magnitudes are one of {N_VALUES}" if row.is_spread else ""
    said = f"{100 * twice(row):.1f} % of images get a slot twice{spread}"
    return (*by_operation, means_compared(WHOLE, _draws_of_policy(pipeline, schedule, fitting), said))


def find_albumentations() -> Any:
    """The library; SettingsError where it is missing."""
    try:
        import albumentations
    except ImportError as error:
        raise SettingsError("albumentations is needed to check its pipelines: pip install albumentations") from error
    return albumentations


def _operation_of_pipeline(
    pipelines: Any, operation: Operation, schedule: Schedule, images: Sequence[Image.Image]
) -> Pairs:
    for case in cases(operation, schedule, images):
        one = _leaf(pipelines, operation, case)
        yield np.asarray(operation.apply_to_pil(*case)), one(image=np.array(case.image))["image"]


def _leaf(pipelines: Any, operation: Operation, case: Case) -> Any:
    leaf = LEAVES[operation.name].transform(operation, case.magnitude, case.color)
    return pipelines.from_dict({"__version__": FORMAT, "transform": {**leaf, "p": 1.0}})


def _draws_of_operation(
    pipelines: Any, operation: Operation, schedule: Schedule, images: Sequence[Image.Image]
) -> Iterator[tuple[Draw, Draw]]:
    """At places that are drawn anew each time, evenly over the image."""
    random = np.random.default_rng(0)
    for case in cases(operation, schedule, images):
        if case.position != POSITIONS[0]:
            continue

        def own(case: Case = case) -> Levels:
            return np.asarray(operation.apply_to_pil(*case._replace(position=tuple(random.random(2)))))

        yield own, _draw_of(_leaf(pipelines, operation, case), case.image)


def _draws_of_policy(pipeline: Any, schedule: Schedule, images: Sequence[Image.Image]) -> Iterator[tuple[Draw, Draw]]:
    transform, generator = schedule.transform(), torch.Generator().manual_seed(0)
    for image in images:

        def own(image: Image.Image = image) -> Levels:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
                return np.asarray(transform(image))

        yield own, _draw_of(pipeline, image)


def _draw_of(transform: Any, image: Image.Image) -> Draw:
    transform.set_random_seed(0)
    # AutoContrast and Equalize may write into a grey image that they are given.
    return lambda: transform(image=np.array(image))["image"]


def _module(text: str) -> Any:
    module = types.ModuleType("exported")
    exec(compile(text, "exported.py", "exec"), vars(module))
    return module


def _operation_on_pil(module: Any, operation: Operation, schedule: Schedule, images: Sequence[Image.Image]) -> Pairs:
    exported = module.OPERATIONS[operation.name]
    for case in cases(operation, schedule, images):
        yield np.asarray(operation.apply_to_pil(*case)), np.asarray(exported.apply_to_pil(*case))


def _policy_on_pil(module: Any, schedule: Schedule, images: Sequence[Image.Image]) -> Pairs:
    """With the same random numbers, both draw the same."""
    own, exported = schedule.transform(), module.transform()
    for place in PLACES:
        for transform in (own, exported):
            transform.set_progress(place)
        for seed in range(N_DRAWS):
            for image in images:
                results = []
                for transform in (own, exported):
                    with torch.random.fork_rng(devices=[]):
                        torch.manual_seed(seed)
                        transform(image)
                        # The second, so that both must have taken as many random numbers.
                        results.append(np.asarray(transform(image)))
                yield results[0], results[1]


def _operation_on_batch(module: Any, operation: Operation, schedule: Schedule, images: Sequence[Image.Image]) -> Pairs:
    exported = module.OPERATIONS[operation.name]
    for case in cases(operation, schedule, images):
        batch = _batch_of(case.image)
        magnitude, position = torch.tensor([case.magnitude]), torch.tensor([case.position])
        found = exported(batch, magnitude, torch.tensor(case.color) / 255, position)
        yield (
            np.asarray(operation.apply_to_pil(*case)),
            _levels_of(found[0].mul(255).round()).reshape(np.asarray(case.image).shape),
        )


def _said_of(operation: Operation) -> str:
    rounds = isinstance(operation.kernel, Blend) or operation.interpolation == "bilinear"
    return "PIL cuts fractions of a grey level off" if rounds else ""


def _policy_on_batches(module: Any, schedule: Schedule, images: Sequence[Image.Image]) -> Pairs:
    """In the first and the last epoch, with the same random numbers."""
    exported = module.policy()
    for epoch in (0, schedule.epochs - 1):
        values, spread = (torch.tensor(rows[epoch], dtype=torch.float32) for rows in (schedule.values, schedule.spread))
        own = Policy(schedule.space, values, schedule.fill, spread)
        exported.set_progress(epoch / max(1, schedule.epochs - 1))
        for image in images:
            batch = _batch_of(image).repeat(COPIES, 1, 1, 1)
            results = []
            for policy in (own, exported):
                with torch.random.fork_rng(devices=[]):
                    torch.manual_seed(epoch)
                    policy(batch)
                    results.append(policy(batch))
            yield from ((_levels_of(one * 255), _levels_of(other * 255)) for one, other in zip(*results, strict=True))


def _batch_of(image: Image.Image) -> Tensor:
    return TF.pil_to_tensor(image)[None].float() / 255


def _levels_of(image: Tensor) -> Levels:
    """(H, W, C), from (C, H, W)."""
    return image.permute(1, 2, 0).numpy().astype(float)


CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "torchvision": of_pil_file,
        "timm": of_pil_file,
        "kornia": of_batch_file,
        "albumentations": of_albumentations_file,
        "json": of_schedule_file,
    }
)
"""By target."""
