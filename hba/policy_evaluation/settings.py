"""The settings of an evaluation, and where each of them comes from."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hba.config.evaluation import OF_SEARCH, OF_WEIGHTS, EvaluationConfig, Sourced, of_earlier_run
from hba.data.arrays import DATASET_NAMES
from hba.data.config import DataConfig, resolved_data
from hba.data.images import EvaluationData
from hba.data.load import AnyDataset, check_data, check_settings_of_dataset, find_source, is_dataset, name_of
from hba.errors import DataError, RunError, SettingsError
from hba.models import Start
from hba.policy_evaluation.leakage import settings_of
from hba.preprocessing import network_input_size
from hba.report.results import RESULTS_NAME
from hba.schedule.library import load_policy
from hba.schedule.schedule import Schedule
from hba.utils.files import read_text, reason_of


@dataclass(frozen=True)
class Chosen:
    """config: the checked settings. sourced: each before the check, with the layer that it comes from. inherited: those
    that come from a search on other data.
    """

    config: EvaluationConfig
    sourced: Mapping[str, Sourced]
    inherited: Mapping[str, Any]


def chosen(
    schedule: Schedule, data: object, preset: str | None, settings: Mapping[str, Any], *, has_own_network: bool = False
) -> Chosen:
    """The given settings, which override those of the preset, which override those of the search.

    data: as in `evaluate`. has_own_network: it replaces the setting `model`. Raises SettingsError where the data are
    not known, DataError where the searched images are gone.
    """
    if has_own_network and (idle := [name for name in ("model", *OF_WEIGHTS) if name in settings]):
        raise SettingsError(f"{idle[0]} has no effect on a network of your own; omit it")
    if is_dataset(data):
        check_settings_of_dataset(settings)
    if data is not None:
        settings = {**settings, "data": _data_setting(data)}
    searched = settings_of(schedule)
    if data is None and preset is None and schedule.provenance and "data" not in searched:
        raise SettingsError("the schedule does not record what it was searched on: name the data to evaluate it on")
    found = _chosen(searched, settings, preset, has_own_network)
    if data is None and found.config.data not in DATASET_NAMES and not Path(found.config.data).exists():
        raise DataError(
            f"there are no images in {found.config.data}, where the schedule was searched; name the folder where they "
            "are now, as in hba evaluate SCHEDULE DIR, or give the data again where they were in memory"
        )
    if isinstance(data, EvaluationData) and "image_size" not in settings:
        size = network_input_size(data.train, found.config.baseline_augmentation())
        found = _chosen(searched, {**settings, "image_size": size}, preset, has_own_network)
    return found


EARLIER = "earlier evaluation"
"""Name of the layer of settings, as `explain` shows it."""


def with_earlier(
    path: str | Path, preset: str | None, data: object, settings: Mapping[str, Any], *, has_own_network: bool = False
) -> dict[str, Any]:
    """The given settings, and those of an earlier evaluation, but its device, that they do not override.

    path: of its results.json or its folder. data: as in `evaluate`. Raises RunError for a file that is no results.json,
    SettingsError where the evaluation had the user's own network and none is given, and DataError where its images are
    gone and none are given.
    """
    if preset:
        raise SettingsError("config has all settings of an earlier run; omit preset")
    file = Path(path) / RESULTS_NAME if Path(path).is_dir() else Path(path)
    given = resolved_data(settings if data is None else {**settings, "data": _data_setting(data)})
    earlier = _read(file)
    if "model" not in earlier and "model" not in given and not has_own_network:
        raise SettingsError(
            f"the evaluation of {file} used a network of your own, which is in no file; give network in Python, or "
            "choose another model"
        )
    taken = of_earlier_run(earlier, given, has_own_network=has_own_network)
    if not isinstance(data, str | Path | None):
        taken = {name: value for name, value in taken.items() if name not in DataConfig.model_fields}
    images = taken.get("data")
    if "data" not in given and images not in DATASET_NAMES and not Path(str(images)).exists():
        raise DataError(
            f"the images of {file} are no longer in {images}; name the data to evaluate on, as in hba evaluate "
            f"SCHEDULE DIR --config {file}"
        )
    return {**{name: value for name, value in taken.items() if name not in given}, **settings}


def check_weights(settled: Chosen, schedule: Schedule, start: Start | None) -> None:
    """SettingsError where the pretrained weights are those of the search, but have changed since."""
    recorded = schedule.provenance.get("pretrained")
    before = recorded.get("sha256") if isinstance(recorded, Mapping) else None
    inherited = settled.sourced["pretrained"].layer == OF_SEARCH
    if start is not None and inherited and before not in (None, start.pretrained.sha256):
        raise SettingsError(
            f"the pretrained weights in {start.pretrained.source} have changed since the search of the schedule; give "
            "the old ones, or to train with these, name them: --pretrained FILE (in Python pretrained=FILE)"
        )


def explain(
    schedule: Schedule | str | Path,
    data: str | Path | EvaluationData | tuple[AnyDataset, AnyDataset] | None = None,
    *,
    preset: str | None = None,
    config: str | Path | None = None,
    **settings: Any,
) -> Mapping[str, Sourced]:
    """Each setting that `evaluate` would use with these arguments, and the name of the layer that it comes from.

    Layers, the weakest first: `default`, `search` (its training), `images of the search` (their size and split, the
    baseline augmentation), the preset or the paper's Table 11, `earlier evaluation` (that of config), `given`. Trains
    nothing and reads no images.
    """
    check_data(data, EvaluationData)
    loaded = schedule if isinstance(schedule, Schedule) else load_policy(schedule)
    taken: Mapping[str, Any] = {}
    if config is not None:
        taken = with_earlier(config, preset, data, settings)
    found = chosen(loaded, data, preset, {**taken, **settings})
    if isinstance(data, str | Path | None) and found.config.data not in DATASET_NAMES:
        # To refuse a misspelt folder here too.
        find_source(found.config)
    checked = found.config.model_dump()
    return {
        name: Sourced(checked[name], EARLIER if name in taken.keys() - settings.keys() else setting.layer)
        for name, setting in found.sourced.items()
        # An evaluation has no validation images.
        if name != "val_size"
    }


def _data_setting(data: object) -> object:
    if isinstance(data, EvaluationData):
        return data.name
    return name_of(data) if is_dataset(data) else data


def _chosen(
    searched: Mapping[str, Any], settings: Mapping[str, Any], preset: str | None, has_own_network: bool
) -> Chosen:
    config = EvaluationConfig.like_search(searched, settings, preset, has_own_network=has_own_network)
    sourced = EvaluationConfig.sourced(searched, settings, preset, has_own_network=has_own_network)
    return Chosen(config, sourced, EvaluationConfig.inherited(searched, sourced))


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
