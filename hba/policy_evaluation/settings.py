"""The settings of an evaluation, and where each of them comes from."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hba.config.evaluation import OF_SEARCH, OF_WEIGHTS, EvaluationConfig, Sourced
from hba.data.builtin import DATASET_NAMES
from hba.data.images import EvaluationData
from hba.data.load import AnyDataset, check_data, check_settings_of_dataset, find_source, is_dataset, name_of
from hba.errors import DataError, SettingsError
from hba.models import Start
from hba.policy_evaluation.earlier import EARLIER, settings_of_earlier
from hba.policy_evaluation.searched import settings_of
from hba.preprocessing.preprocessing import network_input_size
from hba.schedule.library import load_policy
from hba.schedule.schedule import Schedule


@dataclass(frozen=True)
class Chosen:
    """Settings that are checked. sourced: each before it was checked, with where it comes from. inherited: those that
    come from a search on other data.
    """

    config: EvaluationConfig
    sourced: Mapping[str, Sourced]
    inherited: Mapping[str, Any]


def chosen(
    schedule: Schedule, data: object, preset: str | None, settings: Mapping[str, Any], *, has_own_network: bool = False
) -> Chosen:
    """The settings given here, over those of the preset, over those of the search.

    data: as `evaluate` takes them. has_own_network: it takes the place of the setting `model`. Raises SettingsError
    where nothing tells the data, DataError where the searched images are gone.
    """
    if has_own_network and (idle := [name for name in ("model", *OF_WEIGHTS) if name in settings]):
        raise SettingsError(f"{idle[0]} has no effect on a network of your own; omit it")
    if is_dataset(data):
        check_settings_of_dataset(settings)
    if data is not None:
        settings = {**settings, "data": _data_setting(data)}
    searched = settings_of(schedule)
    if data is None and preset is None and schedule.provenance and "data" not in searched:
        raise SettingsError("the schedule does not tell what it was searched on: name the data to evaluate it on")
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


def check_config(preset: str | None) -> None:
    """SettingsError for what cannot stand beside the settings of an earlier evaluation."""
    if preset:
        raise SettingsError("config must stand without preset: it has all settings of an earlier run")


def with_earlier(
    path: str | Path, data: object, settings: Mapping[str, Any], *, has_own_network: bool = False
) -> dict[str, Any]:
    """The settings given, and below them those of the evaluation at path. data: as `evaluate` takes them."""
    given = dict(settings) if data is None else {**settings, "data": _data_setting(data)}
    in_memory = not isinstance(data, str | Path | None)
    earlier = settings_of_earlier(Path(path), given, has_own_network=has_own_network, in_memory=in_memory)
    return {**earlier, **settings}


def check_weights(settled: Chosen, schedule: Schedule, start: Start | None) -> None:
    """SettingsError where the pretrained weights are to be those of the search, and are others now."""
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
    """Each setting that `evaluate` would have with these arguments, checked, and the name of the layer it comes from.

    Layers, the weakest first: `default`, `search` (its training), `images of the search` (their size and split, the
    baseline augmentation), the preset or the paper's Table 11, `earlier evaluation` (that of config), `given`. Trains
    nothing and reads no image.
    """
    check_data(data, EvaluationData, settings.get("data_root"))
    loaded = schedule if isinstance(schedule, Schedule) else load_policy(schedule)
    taken: Mapping[str, Any] = {}
    if config is not None:
        check_config(preset)
        taken = with_earlier(config, data, settings)
    found = chosen(loaded, data, preset, {**taken, **settings})
    if isinstance(data, str | Path | None) and found.config.data not in DATASET_NAMES:
        # A misspelt folder is found out here too.
        find_source(found.config)
    checked = found.config.model_dump()
    return {
        name: Sourced(checked[name], EARLIER if name in taken.keys() - settings.keys() else setting.layer)
        for name, setting in found.sourced.items()
        # Refused in an evaluation, so that there is nothing to say of it.
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
