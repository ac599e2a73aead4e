"""Compares an exported file with the schedule: its operations and its whole policy, beside hba's own on images."""

import types
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torchvision.transforms.v2 import functional as TF

from hba.errors import ScheduleError
from hba.exports.albumentations_file import DIFFERENCES, FORMAT, is_grey, transform_of
from hba.exports.export import find_target
from hba.operations import Operation
from hba.operations.apply import color_for
from hba.policy.space import SearchSpace
from hba.schedule.file import parse
from hba.schedule.schedule import Schedule
from hba.utils.imports import import_extra

N_MAGNITUDES = 5
N_DRAWS = 20
N_DRAWS_OF_ONE = 4
"""Of a single operation at each magnitude: both signs, and several places."""
WHOLE = "whole policy"

Images = Sequence[Image.Image]
Pairs = Iterator[tuple[Any, Any]]
"""Images as hba and the file augment them, in grey levels of 255."""


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
        """exact, or approximate and why."""
        return "exact" if self.is_exact else f"approximate{self.said and ': '}{self.said}"


def check(text: str, to: str, schedule: Schedule, images: Images) -> tuple[Checked, ...]:
    """Compare the text that `export` gave for a target with the schedule: one row per operation, and one for draws.

    Both draw by the same random numbers; for an operation's row, a schedule of it alone is exported and compared.
    images: PIL images of mode L or RGB. Raises ScheduleError for a schedule file that holds another schedule.
    """
    target = find_target(to)
    if to == "json":
        parse(text)
        if text != schedule.text():
            raise ScheduleError("the file that was written holds another schedule")
        return (Checked("all numbers", schedule.values.size + schedule.spread.size, 0.0, 0.0),)
    schedule = schedule.without_regularizers()
    rows = []
    for one in schedule.space.operations:
        said, magnitudes = "", np.linspace(*one.magnitude_range, N_MAGNITUDES).tolist() if one.magnitude_range else []
        if to == "albumentations":
            said, pairs = DIFFERENCES.get(one.name, ""), _with_albumentations(one, magnitudes, schedule.fill, images)
        else:
            # Every image gets the operation, in each epoch at another magnitude of its range.
            values = [[1.0, magnitude] for magnitude in magnitudes] or [[1.0]]
            alone = Schedule(SearchSpace((one,), 1, (0.0, 1.0)), np.array(values), schedule.fill)
            pairs = _pairs(target.write(alone, ""), to, alone, images, range(alone.epochs), N_DRAWS_OF_ONE)
        rows.append(_compared(one.name, pairs, said))
    if to == "albumentations":
        return (*rows, Checked(WHOLE, 0, 0.0, 0.0, "not compared: albumentations draws by its own random numbers"))
    epochs = sorted({0, schedule.epochs // 3, schedule.epochs - 1})
    return (*rows, _compared(WHOLE, _pairs(text, to, schedule, images, epochs, N_DRAWS)))


def _compared(what: str, pairs: Pairs, said: str = "") -> Checked:
    differences = [np.abs(one - other) for one, other in pairs]
    largest = max((float(one.max(initial=0.0)) for one in differences), default=0.0)
    mean = float(np.mean([one.mean() for one in differences])) if differences else 0.0
    return Checked(what, len(differences), largest, mean, said)


def _pairs(text: str, to: str, schedule: Schedule, images: Images, epochs: Iterable[int], n_draws: int) -> Pairs:
    """Each image n_draws times in each epoch."""
    exported: Any = types.ModuleType("exported")
    exec(compile(text, "exported.py", "exec"), vars(exported))
    for epoch in epochs:
        given: list[Any]
        if to == "kornia":
            scale, ours, theirs = 255, schedule.policy(epoch), exported.policy()
            given = [(TF.pil_to_tensor(one)[None] / 255).repeat(n_draws, 1, 1, 1) for one in images]
        else:
            scale, ours, theirs = 1, schedule.only(epoch).transform(), exported.transform()
            given = [*images] * n_draws
        theirs.set_epoch(epoch, schedule.epochs)
        results = []
        for policy in (ours, theirs):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(epoch)
                results.append([scale * np.asarray(policy(one), dtype=float) for one in given])
        yield from zip(*results, strict=True)


def _with_albumentations(
    operation: Operation, magnitudes: Sequence[float], fill: tuple[float, ...], images: Images
) -> Pairs:
    """An operation on images with as many channels as the fill, or any if that is grey.

    Nothing for an operation whose place albumentations draws itself.
    """
    albumentations: Any = import_extra("albumentations", "exports", "a check of its pipelines")
    fitting = [one for one in images if is_grey(fill) or len(one.getbands()) >= len(fill)]
    for image in () if operation.uses_position else fitting:
        color = tuple(round(255 * one) for one in color_for(len(image.getbands()), fill))
        for magnitude in magnitudes or [0.0]:
            for signed in (magnitude, -magnitude) if operation.signed else (magnitude,):
                leaf = {**transform_of(operation, signed, color), "p": 1.0}
                theirs = albumentations.from_dict({"__version__": FORMAT, "transform": leaf})
                # AutoContrast and Equalize may write into a grey image that they are given.
                found = theirs(image=np.array(image))["image"]
                ours = operation.apply_to_pil(image, signed, color, (0.5, 0.5))
                yield np.asarray(ours, dtype=float), found.astype(float)
