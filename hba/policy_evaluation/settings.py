"""The settings of an evaluation: given, of an earlier evaluation, of a preset, or of the search."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hba.config.evaluation import OF_WEIGHTS, EvaluationConfig, of_earlier_run
from hba.data.config import DataConfig, resolved_data
from hba.data.images import EvaluationData
from hba.data.load import is_dataset, name_of_dataset
from hba.errors import SettingsError
from hba.policy_evaluation.leakage import settings_of
from hba.preprocessing import network_input_size
from hba.report.results import RESULTS_NAME, read_results
from hba.schedule.schedule import Schedule

Values = Mapping[str, Any]


def settle(
    schedule: Schedule,
    data: object,
    preset: str | None,
    earlier: str | Path | None,
    settings: Values,
    *,
    has_own_network: bool,
) -> tuple[EvaluationConfig, tuple[str, ...]]:
    """The checked settings, and a note on settings that come from a search on other data.

    The given settings override those of the earlier evaluation, these those of the preset, these those of the search.
    data and earlier (config) as in `evaluate`. has_own_network: it replaces the setting `model`. Raises SettingsError
    where the data are not known.
    """
    if has_own_network and (idle := [name for name in ("model", *OF_WEIGHTS) if name in settings]):
        raise SettingsError(f"{idle[0]} has no effect on a network of your own; omit it")
    if data is not None:
        name: Any = data.name if isinstance(data, EvaluationData) else data
        name = name_of_dataset(data, settings) if is_dataset(data) else name
        settings = {**settings, "data": name}
    if earlier is not None:
        if preset:
            raise SettingsError("config has all settings of an earlier run; omit preset")
        in_memory = not isinstance(data, str | Path | None)
        settings = {**_of_earlier(Path(earlier), settings, has_own_network, in_memory), **settings}
    searched = settings_of(schedule)
    if not ({"data"} & {*settings, *searched} or preset) and schedule.provenance:
        raise SettingsError("the schedule does not record what it was searched on: name the data to evaluate it on")

    config = EvaluationConfig.like_search(searched, settings, preset, has_own_network=has_own_network)
    if isinstance(data, EvaluationData) and "image_size" not in settings:
        settings = {**settings, "image_size": network_input_size(data.train, config.baseline_augmentation())}
        config = EvaluationConfig.like_search(searched, settings, preset, has_own_network=has_own_network)
    is_elsewhere = preset is None and searched.get("data", config.data) != config.data
    note = f"settings as in the search on {searched.get('data')} where none are given; {RESULTS_NAME} lists them"
    return config, (note,) if is_elsewhere else ()


def _of_earlier(path: Path, given: Values, has_own_network: bool, in_memory: bool) -> Values:
    """The settings of an earlier evaluation that apply; not its device, which may not be on this machine."""
    file = path / RESULTS_NAME if path.is_dir() else path
    stored = {name: value for name, value in read_results(file).settings.items() if name != "val_size"}
    if stored.get("model") is None and "model" not in given and not has_own_network:
        raise SettingsError(f"{file} is of a network of your own: give it as network= in Python, or choose a model")
    found = of_earlier_run(stored, resolved_data(given), has_own_network=has_own_network)
    return {name: value for name, value in found.items() if not (in_memory and name in DataConfig.model_fields)}
