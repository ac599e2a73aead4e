"""The command that does a run again, from what its files say of its settings."""

import dataclasses
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hba.algorithms import ALGORITHMS, Lookahead
from hba.algorithms.lambda_steps import HALF, images_at_once
from hba.algorithms.start import IN_MEMORY
from hba.config.evaluation import EvaluationConfig
from hba.config.inheritance import values_of
from hba.config.presets import DEFAULT_PRESETS, SEARCH_PRESETS
from hba.config.search import CommonSearchConfig
from hba.config.training import TrainingConfig
from hba.data.builtin import DATASET_NAMES
from hba.data.leakage import SeenImages
from hba.errors import HbaError
from hba.operations import OPERATIONS
from hba.regularization.groups import REGULARIZERS
from hba.report.run import EVALUATED_NAME, EvaluationFiles
from hba.schedule.schedule import Schedule
from hba.schedule.summary import is_of_text

OPERATIONS_FILE = "FILE"
"""In the place of what only the user knows: where the operations of one's own are registered."""


def search_command(schedule: Schedule) -> str | None:
    """None where the search was given something in Python that no command can give: images in memory, a network, a
    search space or an algorithm of one's own, None in the place of a default.
    """
    settings = schedule.provenance.get("settings")
    if not isinstance(settings, Mapping):
        return None
    if is_of_text(schedule):
        # All settings: their defaults are not known here.
        usual = dict.fromkeys(name for name in settings if name not in ("data", "device"))
        return _command(["hba", "search-text", str(settings.get("data"))], settings, usual, schedule)
    algorithm = ALGORITHMS.get(str(settings.get("algorithm")))
    if algorithm is None or None in (settings.get("model"), settings.get("space")):
        return None
    if not _is_findable(settings, schedule.provenance):
        return None
    data = settings["data"]
    usual = _defaults_of(CommonSearchConfig) | _defaults_of(algorithm)
    if data in DEFAULT_PRESETS:
        preset = values_of(DEFAULT_PRESETS[data], SEARCH_PRESETS, data, {})
        usual |= {name: value for name, value in preset.items() if name in CommonSearchConfig.model_fields}
        usual |= algorithm.of_preset(preset)
    usual |= {"data": data, "algorithm": Lookahead.name}
    settings = {**settings, **_val_batch_size(settings, settings)}
    if isinstance(start := settings.get("init_from"), Mapping):
        if start.get("schedule") == IN_MEMORY:
            return None
        # What it began at otherwise had no effect, and is refused beside it.
        settings = {**settings, "init_from": start.get("schedule"), "init": usual["init"]}
    usual |= _val_batch_size(usual, settings)
    if any(settings.get(name, "") is None and usual[name] is not None for name in algorithm.model_fields):
        return None
    try:
        chosen = {name: settings.get(name) for name in ("image_size", "baseline", "baseline_like")}
        images = TrainingConfig(**{**chosen, "data": data})
        usual |= {
            "image_size": TrainingConfig(data=data).side,
            **dataclasses.asdict(images.baseline_augmentation()),
        }
    except HbaError:
        # Files of other versions: the command then says more than it has to.
        pass
    return _command(["hba", "search", data], settings, usual, schedule)


def evaluation_command(folder: Path, evaluation: EvaluationFiles) -> str | None:
    """None where the evaluated schedule is not kept, and where the images or the network were given in Python.

    Rows that were made of files stand in it by their names.
    """
    schedule, results = evaluation.schedule, evaluation.results
    settings = results.settings
    data = settings.get("data")
    if schedule is None or results.own_network is not None or not isinstance(data, str):
        return None
    if data not in DATASET_NAMES and not Path(data).is_absolute():
        return None
    searched = schedule.provenance.get("settings")
    try:
        usual = EvaluationConfig.like_search(searched if isinstance(searched, Mapping) else {}, {"data": data})
    except HbaError:
        usual = EvaluationConfig()
    others = ",".join(row.name for row in results.rows[1:])
    words = ["hba", "evaluate", str(folder / EVALUATED_NAME), data, *(["--against", others] if others else [])]
    words += ["--allow-seen"] if results.allows_seen else []
    return _command(words, settings, usual.model_dump(mode="json"), schedule)


def _is_findable(settings: Mapping[str, Any], provenance: Mapping[str, Any]) -> bool:
    """Whether the images have a name or a folder, which those of a Dataset and in memory have not."""
    seen = SeenImages.from_json(provenance.get("images_seen"))
    data = settings.get("data")
    return data in DATASET_NAMES if seen is None else seen.kind == "files" and isinstance(data, str)


def _val_batch_size(found: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, int]:
    """As a number; nothing where there is no such setting, or what no search has had."""
    name, batch_size = "val_batch_size", settings.get("batch_size")
    is_known = (name in found and isinstance(found[name], int | None)) or found.get(name) == HALF
    return {name: images_at_once(found[name], batch_size)} if is_known and isinstance(batch_size, int) else {}


def _defaults_of(settings: Any) -> dict[str, Any]:
    return {name: field.get_default(call_default_factory=True) for name, field in settings.model_fields.items()}


def _command(words: list[str], settings: Mapping[str, Any], usual: Mapping[str, Any], schedule: Schedule) -> str:
    """With an option for each setting that is not the usual one."""
    for name, value in settings.items():
        if value is None or name not in usual or _as_json(usual[name]) == _as_json(value):
            continue
        option = name.replace("_", "-")
        words += (
            [f"--{option}" if value else f"--no-{option}"] if isinstance(value, bool) else [f"--{option}", _word(value)]
        )
    space = schedule.space
    own = [one.name for one in space.operations if one.name not in OPERATIONS]
    if own or any(one.group not in REGULARIZERS for one in space.regularizers):
        words += ["--operations-file", OPERATIONS_FILE]
    return shlex.join(words)


def _as_json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _word(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
