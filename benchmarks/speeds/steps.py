"""Seconds of training steps on noise: of every algorithm and its floor, and with
bfloat16.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from common.floors import FLOORS, bare_seconds_per_step
from common.records import Record, Results, Run, newest, store_of
from common.settings import kept_settings
from common.tables import hardware_of, markdown, ratio_text, spread_text
from common.timing import (
    in_turns,
    search_seconds_per_step,
    training_seconds_per_step,
)

from hba.config.evaluation import EvaluationConfig
from hba.data import EvaluationData, LabelledImages, SearchData
from hba.policy_search.config import SearchConfig

N_CLASSES = 10
BATCHES = 50
"""Batches of noise in an epoch, whose end takes time in a search and none in a floor.
"""
VAL_BATCHES = 4
"""Batches of noise for validation."""
LEARNING_RATE = 0.01
"""All algorithms diverge on noise at higher ones."""
SIZE = ("model", "image_size", "batch_size")
KINDS = {"training": "a training", "search": "a search, with its lambda steps"}
Timed = Mapping[str, Callable[[], float]]
"""By name, a function that returns seconds per step."""


def noise(n_images: int, side: int, seed: int) -> LabelledImages:
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(
        0, 256, (n_images, 3, side, side), dtype=torch.uint8, generator=generator
    )
    return LabelledImages(pixels, torch.arange(n_images) % N_CLASSES)


def noise_data(side: int, n_train: int, n_val: int) -> SearchData:
    """Noise as images, because the content of images does not affect the time."""
    names = tuple(map(str, range(N_CLASSES)))
    return SearchData("noise", names, noise(n_train, side, 0), noise(n_val, side, 1))


def settings_of(
    model: str, side: int, batch_size: int, device: str, *, graph: bool = True
) -> dict[str, Any]:
    return {
        "model": model,
        "image_size": side,
        "batch_size": batch_size,
        "device": device,
        "graph": graph,
    }


def timed_floors(shared: Mapping[str, Any], steps: int) -> tuple[Timed, dict[str, Any]]:
    """Timings of a step of each algorithm and its floor, and the settings of each."""
    data = noise_data(
        shared["image_size"],
        *(n_batches * shared["batch_size"] for n_batches in (BATCHES, VAL_BATCHES)),
    )
    settings = {**shared, "data": "noise", "learning_rate": LEARNING_RATE}
    searched = {**settings, "space": "hba"}
    configs = {
        name: SearchConfig.make({**searched, **floor.settings}).resolved()
        for name, floor in FLOORS.items()
    }
    timed: dict[str, Callable[[], float]] = {}
    for name, config in configs.items():
        timed[name] = partial(search_seconds_per_step, config, data, steps)
        timed[f"{name}, floor"] = partial(
            bare_seconds_per_step, FLOORS[name], config, data, steps
        )
    return timed, {
        **settings,
        "algorithms": {name: kept_settings(config) for name, config in configs.items()},
    }


def timed_fast(shared: Mapping[str, Any], steps: int) -> Timed:
    """Timings of a step of a training and of a look-ahead search, with and without
    `fast`.
    """
    data = noise_data(
        shared["image_size"],
        *(n_batches * shared["batch_size"] for n_batches in (BATCHES, VAL_BATCHES)),
    )
    trained = EvaluationData("noise", data.class_names, data.train, data.val)
    calls: dict[str, Callable[[], float]] = {}
    for fast, suffix in ((False, ""), (True, ", fast")):
        settings = {
            **shared,
            "data": "noise",
            "learning_rate": LEARNING_RATE,
            "fast": fast,
        }
        search = SearchConfig.make(
            {**settings, "algorithm": "lookahead", "space": "hba"}
        ).resolved()
        evaluation = EvaluationConfig.make(settings)
        calls[f"search{suffix}"] = partial(search_seconds_per_step, search, data, steps)
        calls[f"training{suffix}"] = partial(
            training_seconds_per_step, evaluation, trained, steps
        )
    return calls


def record_of_floors(
    shared: Mapping[str, Any], steps: int, rounds: int, made_by: Mapping[str, Any]
) -> Record:
    timed, settings = timed_floors(shared, steps)
    times = in_turns(timed, rounds)
    results: Results = {
        "seconds_per_step": {name: times[name] for name in FLOORS},
        "floor_seconds_per_step": {name: times[f"{name}, floor"] for name in FLOORS},
    }
    return Record(Run("steps", "noise", settings, seed=0), results, made_by)


def record_of_fast(
    shared: Mapping[str, Any], steps: int, rounds: int, made_by: Mapping[str, Any]
) -> Record:
    times = in_turns(timed_fast(shared, steps), rounds)
    return Record(
        Run("fast", "noise", {**shared, "steps": steps, "rounds": rounds}, seed=0),
        times,
        made_by,
    )


def newest_of_each_size(results: Path, question: str) -> list[Record]:
    """The newest records for each network, image size and batch size."""
    records = store_of(results, question).records()
    return newest(
        records,
        lambda run: (
            *(run.settings.get(setting) for setting in SIZE),
            run.settings.get("graph", True),
        ),
    )


def floor_table(records: Sequence[Record]) -> str:
    """Markdown tables, one per size: seconds of each algorithm and its floor, and their
    ratio within a round.
    """
    parts = []
    for record in records:
        settings = record.run.settings
        seconds = record.results["seconds_per_step"]
        floors = record.results["floor_seconds_per_step"]
        table = pd.DataFrame(
            {
                "algorithm": f"`{name}`",
                "seconds per step": spread_text(seconds[name], 4),
                "floor": spread_text(floors[name], 4),
                "times the floor": ratio_text(seconds[name], floors[name]),
                "the floor is": FLOORS[name].why,
            }
            for name in seconds
            if name in FLOORS
        )
        side = settings["image_size"]
        without = "" if settings.get("graph", True) else ", without graphs"
        caption = (
            f"{settings['model']}, {side}x{side} pixels, batches of"
            f" {settings['batch_size']}{without}"
        )
        machine = f"{hardware_of(record.made_by)}; commit `{record.made_by['commit']}`"
        rounds = len(next(iter(seconds.values())))
        parts.append(f"{caption}; {rounds} rounds; {machine}.\n\n{markdown(table)}")
    return "\n\n".join(parts)


def fast_table(records: Sequence[Record]) -> str:
    """A Markdown table of the seconds of a step without and with `fast`, and their
    ratio within a round.
    """
    lines = [
        {
            "network, pixels, batch": ", ".join(
                str(record.run.settings[setting]) for setting in SIZE
            ),
            "step of": label,
            "seconds": spread_text(record.results[quantity], 4),
            "seconds with `--fast`": spread_text(
                record.results[f"{quantity}, fast"], 4
            ),
            "times as fast": ratio_text(
                record.results[quantity], record.results[f"{quantity}, fast"]
            ),
            "rounds": str(len(record.results[quantity])),
            "hardware, commit": (
                f"{hardware_of(record.made_by)}, `{record.made_by['commit']}`"
            ),
        }
        for record in records
        for quantity, label in KINDS.items()
    ]
    return markdown(pd.DataFrame(lines))
