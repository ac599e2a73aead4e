"""The settings of an evaluation: given, of an earlier evaluation, of a preset, or of the search."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hba.config.evaluation import OF_WEIGHTS, EvaluationConfig, of_earlier_run
from hba.data.config import DataConfig, resolved_data
from hba.data.images import EvaluationData
from hba.data.load import is_dataset, name_of_dataset
from hba.errors import SettingsError
from hba.models import Start
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
) -> tuple[EvaluationConfig, Start | None, tuple[str, ...]]:
    """The checked settings, the pretrained weights, and a note on settings that come from a search on other data.

    The given settings override those of the earlier evaluation, these those of the preset, these those of the search.
    data and earlier (config) as in `evaluate`. has_own_network: it replaces the setting `model`. Raises SettingsError
    where the data are not known or the weights of the search have changed.
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
    start, recorded = config.network_start(), schedule.provenance.get("pretrained")
    before = recorded.get("sha256") if isinstance(recorded, Mapping) else None
    if start is not None and "pretrained" not in settings and before not in (None, start.sha256):
        raise SettingsError(
            f"the pretrained weights in {start.source} have changed since the search of the schedule; give "
            "the old ones, or to train with these, name them: --pretrained FILE (in Python pretrained=FILE)"
        )
    is_elsewhere = preset is None and searched.get("data", config.data) != config.data
    note = f"settings as in the search on {searched.get('data')} where none are given; {RESULTS_NAME} lists them"
    return config, start, (note,) if is_elsewhere else ()


def _of_earlier(path: Path, given: Values, has_own_network: bool, in_memory: bool) -> Values:
    """The settings of an earlier evaluation that apply; not its device, which may not be on this machine."""
    file = path / RESULTS_NAME if path.is_dir() else path
    stored = read_results(file).settings
    # A network of the user's own has no name.
    left_out = ("device", "val_size", "" if stored.get("model") else "model")
    earlier = {name: value for name, value in stored.items() if name not in left_out}
    if not ("model" in earlier or "model" in given or has_own_network):
        raise SettingsError(
            f"the evaluation of {file} used a network of your own, which is in no file; give network in Python, or "
            "choose another model"
        )
    found = of_earlier_run(earlier, resolved_data(given), has_own_network=has_own_network)
    return {name: value for name, value in found.items() if not (in_memory and name in DataConfig.model_fields)}
