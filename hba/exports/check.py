"""Compares an exported file with the schedule: its operations and its whole policy, beside hba's own on images."""

import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torchvision.transforms.v2 import functional as TF

from hba.errors import ScheduleError, SettingsError
from hba.exports.albumentations_file import FORMAT, LEAVES, is_grey
from hba.exports.export import find_target
from hba.operations import Operation, color_for
from hba.operations.enhance import Blend
from hba.policy.module import Policy
from hba.schedule.file import parse
from hba.schedule.schedule import Schedule

N_MAGNITUDES = 5
N_DRAWS = 20
PLACES = (0.0, 0.37, 1.0)
"""In a schedule, at which whole policies are compared."""
POSITIONS = ((0.0, 0.0), (0.3, 0.6), (0.97, 0.97))
"""In an image, for operations that have a place."""
COPIES = 8
"""Of an image in a batch."""
WHOLE = "whole policy"

Levels = NDArray[Any]
"""Grey levels in [0, 255], (H, W) or (H, W, C)."""
Images = Sequence[Image.Image]


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


class Case(NamedTuple):
    """An operation's arguments: a PIL image, the signed magnitude, the colour in grey levels, a place in [0, 1)."""

    image: Image.Image
    magnitude: float
    color: tuple[int, ...]
    position: tuple[float, float]


def check(text: str, to: str, schedule: Schedule, images: Images) -> tuple[Checked, ...]:
    """Compare the text that `export` gave for a target with the schedule: one row per operation, and one for draws.

    images: PIL images of mode L or RGB, at least one. Raises ScheduleError for a schedule file that does not load.
    """
    find_target(to)
    if not images:
        raise SettingsError("a check needs at least one image")
    if to == "json":
        loaded = Schedule(**parse(text)._asdict())
        if loaded.text() != schedule.text():
            raise ScheduleError("the file that was written holds another schedule")
        return (Checked("all numbers", schedule.values.size + schedule.spread.size, 0.0, 0.0),)
    schedule = schedule.without_regularizers()
    if to == "albumentations":
        return _check_albumentations(schedule, images)
    module: Any = types.ModuleType("exported")
    exec(compile(text, "exported.py", "exec"), vars(module))
    apply, draws = (_on_batch, _policy_on_batches) if to == "kornia" else (_on_pil, _policy_on_pil)
    rows = []
    for operation in schedule.space.operations:
        # Of kornia's operations, only enhancers and means of pixels may differ.
        rounds = isinstance(operation.kernel, Blend) or operation.interpolation == "bilinear"
        cases = _cases(operation, schedule, images)
        pairs = ((operation.apply_to_pil(*case), apply(module.OPERATIONS[operation.name], case)) for case in cases)
        rows.append(_compared(operation.name, pairs, "PIL cuts fractions of a grey level off" if rounds else ""))
    return (*rows, _compared(WHOLE, draws(module, schedule, images)))


def _cases(operation: Operation, schedule: Schedule, images: Images) -> Iterator[Case]:
    """Each image at several magnitudes of the operation's range, with both signs, and at several places."""
    low, high = operation.magnitude_range or (0.0, 0.0)
    magnitudes = np.linspace(low, high, N_MAGNITUDES if operation.magnitude_range else 1).tolist()
    signs = (1, -1) if operation.signed else (1,)
    for image in images:
        color = tuple(round(255 * one) for one in color_for(len(image.getbands()), schedule.fill))
        for magnitude in (sign * one for one in magnitudes for sign in signs):
            for position in POSITIONS if operation.uses_position else POSITIONS[:1]:
                yield Case(image, magnitude, color, position)


def _compared(what: str, pairs: Iterable[tuple[Any, Any]], said: str = "") -> Checked:
    """Of PIL images or arrays of grey levels."""
    differences = [np.abs(np.asarray(one, dtype=float) - np.asarray(other, dtype=float)) for one, other in pairs]
    largest = max((float(one.max(initial=0.0)) for one in differences), default=0.0)
    mean = float(np.mean([one.mean() for one in differences])) if differences else 0.0
    return Checked(what, len(differences), largest, mean, said)


def _seeded(transform: Callable[[Any], Any], given: Any, seed: int) -> Any:
    """The second result with a seed: both sides must take as many random numbers for the first one."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        transform(given)
        return transform(given)


def _policy_on_pil(module: Any, schedule: Schedule, images: Images) -> Iterator[tuple[Any, Any]]:
    own, exported = schedule.transform(), module.transform()
    for place in PLACES:
        own.set_progress(place)
        exported.set_progress(place)
        for seed in range(N_DRAWS):
            yield from ((_seeded(own, image, seed), _seeded(exported, image, seed)) for image in images)


def _on_pil(exported: Any, case: Case) -> Any:
    return exported.apply_to_pil(*case)


def _on_batch(exported: Any, case: Case) -> Levels:
    batch = TF.pil_to_tensor(case.image)[None].float() / 255
    magnitude, position = torch.tensor([case.magnitude]), torch.tensor([case.position])
    found = exported(batch, magnitude, torch.tensor(case.color) / 255, position)[0].mul(255).round()
    levels: Levels = found.permute(1, 2, 0).numpy().reshape(np.asarray(case.image).shape)
    return levels


def _policy_on_batches(module: Any, schedule: Schedule, images: Images) -> Iterator[tuple[Levels, Levels]]:
    """In the first and the last epoch."""
    exported = module.policy()
    for epoch in (0, schedule.epochs - 1):
        values, spread = (torch.tensor(rows[epoch], dtype=torch.float32) for rows in (schedule.values, schedule.spread))
        own = Policy(schedule.space, values, schedule.fill, spread)
        exported.set_progress(epoch / max(1, schedule.epochs - 1))
        for image in images:
            batch = (TF.pil_to_tensor(image)[None].float() / 255).repeat(COPIES, 1, 1, 1)
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

    def applied(operation: Operation, case: Case) -> Levels:
        transform = {**LEAVES[operation.name].transform(operation, case.magnitude, case.color), "p": 1.0}
        # AutoContrast and Equalize may write into a grey image that they are given.
        image = np.array(case.image)
        result: Levels = albumentations.from_dict({"__version__": FORMAT, "transform": transform})(image=image)["image"]
        return result

    rows = []
    for operation in schedule.space.operations:
        leaf = LEAVES[operation.name]
        cases = _cases(operation, schedule, fitting) if leaf.is_compared else ()
        rows.append(
            _compared(
                operation.name,
                ((operation.apply_to_pil(*case), applied(operation, case)) for case in cases),
                leaf.said if leaf.is_compared else f"not compared: {leaf.said}",
            )
        )
    return (*rows, Checked(WHOLE, 0, 0.0, 0.0, "not compared: albumentations draws by its own random numbers"))
