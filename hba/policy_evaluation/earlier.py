"""A new evaluation with the settings of an earlier one."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hba.config.evaluation import EvaluationConfig, of_earlier_run
from hba.data.builtin import DATASET_NAMES
from hba.data.config import DataConfig, resolved_data
from hba.errors import DataError, RunError, SettingsError
from hba.report.results import RESULTS_NAME
from hba.utils.files import read_text, reason_of

EARLIER = "earlier evaluation"
"""Name of the layer of settings, as `explain` shows it."""


def settings_of_earlier(
    path: Path, settings: Mapping[str, Any], *, has_own_network: bool = False, in_memory: bool = False
) -> dict[str, Any]:
    """Settings of the evaluation whose results.json, or whose folder, is at path, as far as those given leave them.

    settings: those given, with the data if they are. in_memory: whether the data are no files. Its device is not among
    them. Raises RunError for what is no such file, SettingsError where its network is in no file and no other is given,
    and DataError where its images are gone and no others are given.
    """
    file = path / RESULTS_NAME if path.is_dir() else path
    given = resolved_data(settings)
    earlier = _read(file)
    if "model" not in earlier and "model" not in given and not has_own_network:
        raise SettingsError(
            f"the evaluation of {file} had a network of its own, which no file has; give network in Python, or "
            "choose another model"
        )
    taken = of_earlier_run(earlier, given, has_own_network=has_own_network)
    if in_memory:
        taken = {name: value for name, value in taken.items() if name not in DataConfig.model_fields}
    data = taken.get("data")
    if "data" not in given and data not in DATASET_NAMES and not Path(str(data)).exists():
        raise DataError(
            f"the images of {file} are no longer in {data}; name the data to evaluate on, as in hba evaluate SCHEDULE "
            f"DIR --config {file}"
        )
    return {name: value for name, value in taken.items() if name not in given}


def _read(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_text(file))
        settings = content.get("settings") if isinstance(content, dict) else None
        if not isinstance(settings, dict):
            raise ValueError("it must hold settings by name")
        # The device may not be on this machine, and a network of the user's own has no name.
        kept = {
            name: value
            for name, value in settings.items()
            if name not in ("device", "val_size") and (name, value) != ("model", None)
        }
        EvaluationConfig.make(kept)
    except (ValueError, OSError, RecursionError) as error:
        raise RunError(
            f"config must be the {RESULTS_NAME} of an evaluation, or its folder; {file} cannot be read: "
            f"{reason_of(error)}"
        ) from None
    return kept
