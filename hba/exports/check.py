"""Compares an exported file with the schedule: its operations and its whole policy, beside hba's own on images."""

import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torchvision.transforms.v2 import functional as TF

from hba.errors import ScheduleError, SettingsError
from hba.exports.albumentations_file import FORMAT, LEAVES, is_grey
from hba.exports.export import find_target
from hba.operations import Operation
from hba.operations.images import color_for
from hba.policy.module import Policy
from hba.policy.space import SearchSpace
from hba.schedule.file import parse
from hba.schedule.schedule import Schedule

N_MAGNITUDES = 5
N_DRAWS = 20
N_DRAWS_OF_ONE = 4
"""Of a single operation at each magnitude: both signs, and several places."""
PLACES = (0.0, 0.37, 1.0)
"""In a schedule, at which whole policies are compared."""
WHOLE = "whole policy"

Images = Sequence[Image.Image]
Pairs = Iterable[tuple[Any, Any]]
"""Of PIL images or arrays of grey levels."""


@dataclass(frozen=True)
class Checked:
    """largest, mean: difference to hba's own result, in grey levels of 255, over images, magnitudes and draws.

    what: the name of an operation, or WHOLE. n: the number of compared images, 0 if nothing can be compared. said: how
    it differs, if that is known.
    """

    what: str
    n: int
    largest: float
    mean: float
    said: str = ""

    @property
    def is_exact(self) -> bool:
        return self.n > 0 and self.largest == 0

    @property
    def verdict(self) -> str:
        """exact or approximate."""
        return "exact" if self.is_exact else "approximate"


def check(text: str, to: str, schedule: Schedule, images: Images) -> tuple[Checked, ...]:
    """Compare the text that `export` gave for a target with the schedule: one row per operation, and one for draws.

    Both draw by the same random numbers; for an operation's row, a schedule of it alone is exported and compared.
    images: PIL images of mode L or RGB, at least one. Raises ScheduleError for a schedule file that does not load.
    """
    target = find_target(to)
    if not images:
        raise SettingsError("a check needs at least one image")
    if to == "json":
        loaded = Schedule(**parse(text)._asdict())
        pairs_of_rows = ((loaded.values, schedule.values), (loaded.spread, schedule.spread))
        same = loaded.space == schedule.space and loaded.fill == tuple(schedule.fill)
        if not (same and all(np.array_equal(*pair) for pair in pairs_of_rows)):
            raise ScheduleError("the file that was written holds another schedule")
        return (Checked("all numbers", schedule.values.size + schedule.spread.size, 0.0, 0.0),)
    schedule = schedule.without_regularizers()
    if to == "albumentations":
        return _check_albumentations(schedule, images)
    pairs = _on_batches if to == "kornia" else _on_pil_images
    rows = []
    for operation in schedule.space.operations:
        alone = _of_one(operation, schedule.fill)
        places = np.linspace(0, 1, alone.epochs).tolist()
        rows.append(_compared(operation.name, pairs(target.write(alone, ""), alone, images, places, N_DRAWS_OF_ONE)))
    return (*rows, _compared(WHOLE, pairs(text, schedule, images, PLACES, N_DRAWS)))


def _of_one(operation: Operation, fill: tuple[float, ...]) -> Schedule:
    """Every image gets the operation, in each epoch at another magnitude of its range."""
    rows = [[1.0]]
    if operation.magnitude_range:
        rows = [[1.0, magnitude] for magnitude in np.linspace(*operation.magnitude_range, N_MAGNITUDES)]
    return Schedule(SearchSpace((operation,), 1, (0.0, 1.0)), np.array(rows), fill)


def _compared(what: str, pairs: Pairs, said: str = "") -> Checked:
    differences = [np.abs(np.asarray(one, dtype=float) - np.asarray(other, dtype=float)) for one, other in pairs]
    largest = max((float(one.max(initial=0.0)) for one in differences), default=0.0)
    mean = float(np.mean([one.mean() for one in differences])) if differences else 0.0
    return Checked(what, len(differences), largest, mean, said)


def _module(text: str) -> Any:
    module: Any = types.ModuleType("exported")
    exec(compile(text, "exported.py", "exec"), vars(module))
    return module


def _seeded(transform: Callable[[Any], Any], given: Any, seed: int) -> Any:
    """The second result with a seed: both sides must take as many random numbers for the first one."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        transform(given)
        return transform(given)


def _on_pil_images(
    text: str, schedule: Schedule, images: Images, places: Iterable[float], n_draws: int
) -> Iterator[tuple[Any, Any]]:
    own, exported = schedule.transform(), _module(text).transform()
    for place in places:
        own.set_progress(place)
        exported.set_progress(place)
        for seed in range(n_draws):
            yield from ((_seeded(own, image, seed), _seeded(exported, image, seed)) for image in images)


def _on_batches(
    text: str, schedule: Schedule, images: Images, places: Iterable[float], n_draws: int
) -> Iterator[tuple[Any, Any]]:
    """In the epochs that are nearest to the places; a batch is an image n_draws times."""
    exported = _module(text).policy()
    for epoch in sorted({round(place * (schedule.epochs - 1)) for place in places}):
        values, spread = (torch.tensor(rows[epoch], dtype=torch.float32) for rows in (schedule.values, schedule.spread))
        own = Policy(schedule.space, values, schedule.fill, spread)
        exported.set_progress(epoch / max(1, schedule.epochs - 1))
        for image in images:
            batch = (TF.pil_to_tensor(image)[None].float() / 255).repeat(n_draws, 1, 1, 1)
            results = [_seeded(policy, batch, epoch).mul(255).numpy() for policy in (own, exported)]
            yield from zip(*results, strict=True)


def _check_albumentations(schedule: Schedule, images: Images) -> tuple[Checked, ...]:
    """On images with as many channels as the fill, or any if that is grey; SettingsError if no image fits.

    What albumentations draws itself, the place of a hole and the whole policy, cannot be compared image by image.
    """
    try:
        import albumentations
    except ImportError as error:
        raise SettingsError("albumentations is needed to check its pipelines: pip install albumentations") from error
    n_channels = 1 if is_grey(schedule.fill) else len(schedule.fill)
    fitting = [image for image in images if len(image.getbands()) >= n_channels]
    if not fitting:
        raise SettingsError("a check needs an image in colour, as the schedule's fill colour is")

    def pairs(operation: Operation) -> Iterator[tuple[Any, Any]]:
        for image in fitting:
            color = tuple(round(255 * one) for one in color_for(len(image.getbands()), schedule.fill))
            for magnitude in np.linspace(*(operation.magnitude_range or (0.0, 0.0)), N_MAGNITUDES).tolist():
                for signed in (magnitude, -magnitude) if operation.signed else (magnitude,):
                    leaf = {**LEAVES[operation.name].transform(operation, signed, color), "p": 1.0}
                    theirs = albumentations.from_dict({"__version__": FORMAT, "transform": leaf})
                    # AutoContrast and Equalize may write into a grey image that they are given.
                    found = theirs(image=np.array(image))["image"]
                    yield operation.apply_to_pil(image, signed, color, (0.5, 0.5)), found

    rows = []
    for operation in schedule.space.operations:
        leaf = LEAVES[operation.name]
        said = leaf.said if leaf.is_compared else f"not compared: {leaf.said}"
        rows.append(_compared(operation.name, pairs(operation) if leaf.is_compared else (), said))
    return (*rows, Checked(WHOLE, 0, 0.0, 0.0, "not compared: albumentations draws by its own random numbers"))
