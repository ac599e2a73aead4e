"""Schedules of all kinds, and modules made of exported files."""

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import hba
from hba.operations import OPERATIONS, STAGED
from hba.policy.space import SearchSpace
from hba.policy.spaces import search_space
from hba.schedule.schedule import Schedule

SPACES = {
    "hba": search_space(),
    "K searched": search_space(searches_count=True),
    "bilinear": search_space(interpolation="bilinear"),
    "pba": search_space("pba"),
    "stages": SearchSpace(
        (
            *STAGED.values(),
            *(OPERATIONS[name] for name in ("Rotate", "Invert", "Cutout")),
        ),
        2,
        (0.2, 0.3, 0.5),
    ),
    "one slot": SearchSpace(
        search_space(operations=["Rotate"]).operations, 1, (0.0, 1.0)
    ),
}
SPREADS = ("none", "magnitudes", "all", "by row")
CASES = sorted(
    {(space, "all") for space in SPACES}
    | {(space, spread) for space in ("K searched", "stages") for spread in SPREADS}
)
"""Space and spread: every space, and every spread with and without a searched K."""


def schedule_of(space: str, spread: str = "none", epochs: int = 4) -> Schedule:
    """With random values, and a colour of its own."""
    random = np.random.default_rng(0)
    low, high = np.array(SPACES[space].ranges).T
    values = low + (high - low) * random.random((epochs, len(low)))
    schedule = Schedule(SPACES[space], values, (0.2, 0.4, 0.7))
    if spread == "by row":
        return Schedule(
            SPACES[space], values, (0.2, 0.4, 0.7), spread=random.random(values.shape)
        )
    return schedule.with_spread(
        {"none": 0.0}.get(spread, 0.8), probabilities=spread == "all"
    )


def pictures() -> list[Image.Image]:
    """A coloured and a grey one, neither square; noise, so that each pixel tells."""
    pixels = np.random.default_rng(1).integers(0, 256, (21, 34, 3), dtype=np.uint8)
    return [Image.fromarray(pixels), Image.fromarray(pixels[:, :, 0])]


def module_of(text: str) -> Any:
    """What the file defines."""
    module = types.ModuleType("policy_of_a_text")
    exec(compile(text, "exported.py", "exec"), vars(module))
    return module


def augmented(transform: Any, image: Any, seed: int) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return transform(image)


def imported_from(
    folder: Path, schedule: Schedule, to: str, name: str, monkeypatch: Any
) -> Any:
    """The module of a written file, as a program beside it would import it."""
    hba.export(schedule, to, folder / f"{name}.py")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return __import__(name)
