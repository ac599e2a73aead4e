"""What the arguments of `search` say: which of them contradict each other, and which settings they stand for."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hba.algorithms import Algorithm
from hba.data.config import DataConfig
from hba.data.images import SearchData
from hba.data.load import check_settings_of_dataset, is_dataset, name_of
from hba.errors import SettingsError
from hba.operations import check_known
from hba.policy.space import SearchSpace
from hba.policy_search.budget import Budget
from hba.policy_search.config import SearchConfig
from hba.preprocessing.preprocessing import network_input_size
from hba.regularization.groups import AUGMENTATION, find_regularizer


def check_resume(
    preset: str | None, paper: bool, resume: bool, out: str | Path | None, config: str | Path | None = None
) -> None:
    """SettingsError for arguments that contradict each other."""
    if config is not None and (preset or paper or resume):
        other = "resume" if resume else "paper" if paper else "preset"
        raise SettingsError(f"config must stand without {other}: it has all settings of an earlier run")
    if resume and (paper or preset):
        raise SettingsError(f"a resumed run keeps its settings; remove {'paper' if paper else 'preset'}")
    if resume and out is None:
        raise SettingsError("resume needs out, the folder of the search to resume")


def budget_of(given: Budget | float | None, resume: bool) -> Budget | None:
    """SettingsError for what is no time, and in a resumed run, whose epochs are chosen."""
    if given is not None and resume:
        raise SettingsError("a resumed run keeps its number of epochs; remove budget_seconds")
    return None if given is None else Budget.of(given)


Choose = Callable[[Mapping[str, Any]], SearchConfig]


def settings_of_data(data: object, settings: Mapping[str, Any], choose: Choose) -> dict[str, Any]:
    """What the data decide; images in memory leave nothing to choose about files and splits.

    choose: all settings of the search, from those that are given.
    """
    if data is None:
        return {}
    if is_dataset(data):
        check_settings_of_dataset(settings)
        return {"data": name_of(data)}
    if not isinstance(data, SearchData):
        return {"data": data}
    idle = [name for name in settings if name in DataConfig.model_fields]
    if idle:
        raise SettingsError(f"{idle[0]} has no effect on images in memory; remove it")
    baseline = choose({**settings, "data": data.name}).baseline_augmentation()
    return {"data": data.name, "image_size": network_input_size(data.train, baseline)}


def settings_of_space(space: SearchSpace | str | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """A space by name is a setting; one of your own leaves nothing to choose about its operations and their number."""
    if not isinstance(space, SearchSpace):
        return {} if space is None else {"space": space}
    idle = [name for name in ("operations", "interpolation", "count", "tune") if name in settings]
    algorithm = settings.get("algorithm")
    if isinstance(algorithm, Algorithm) and "count" in algorithm.model_fields_set:
        idle.append("count")
    if idle:
        raise SettingsError(f"{idle[0]} has no effect on a search space of your own; remove it")
    for operation in space.operations:
        check_known(operation)
    return {"tune": _tuned_in(space)} if space.regularizers else {}


def _tuned_in(space: SearchSpace) -> tuple[str, ...]:
    """What the setting `tune` calls the parts of a space of one's own."""
    groups = dict.fromkeys(find_regularizer(one.group).tuned_as for one in space.regularizers)
    return (*((AUGMENTATION,) if space.operations else ()), *groups)
