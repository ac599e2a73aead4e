"""A new search with the settings of an earlier one."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from hba.algorithms import Algorithm
from hba.algorithms.lambda_steps import HALF, images_at_once
from hba.config.evaluation import of_earlier_run
from hba.data.builtin import DATASET_NAMES
from hba.data.config import DataConfig, resolved_data
from hba.errors import DataError, RunError
from hba.policy_search.config import ALGORITHM_SETTINGS, SearchConfig
from hba.policy_search.custom_components import check_told
from hba.policy_search.folder import by_name, own_kind, read_config
from hba.report.run import CONFIG_NAME
from hba.schedule.library import of_several_seeds
from hba.utils.files import reason_of


def from_earlier_config(
    path: Path,
    settings: Mapping[str, Any],
    *,
    own: Collection[str] = (),
    in_memory: bool = False,
) -> SearchConfig:
    """The settings of the search whose config.json, or whose folder, is at path, under those given.

    own: what of `model` and `space` the new search has of its own. in_memory: whether the data are no files, which are
    then not split and read by settings of the earlier search. Files of other versions are read as for a search that is
    resumed. Raises RunError for what is no such file, SettingsError for settings that do not go with those given and
    for a network or a search space of the earlier search's own, which no file has, and DataError where its images are
    gone and no others are given.
    """
    file = path / CONFIG_NAME if path.is_dir() else path
    if not file.exists() and (several := of_several_seeds(path)):
        raise RunError(several)
    given = by_name(resolved_data(settings))
    own_algorithm = own_kind(settings)
    earlier = _read(file, own_algorithm)
    check_told(file, {*given, *own})
    taken = of_earlier_run(earlier.flat(), given, has_own_network="model" in own)
    if in_memory:
        taken = {name: value for name, value in taken.items() if name not in DataConfig.model_fields}
    name = given.get("algorithm", earlier.algorithm.name)
    if name != earlier.algorithm.name:
        taken = {name: value for name, value in taken.items() if name not in _settings_of(earlier.algorithm)}
        kind: type[Algorithm] | str = own_algorithm or name
    else:
        kind = type(earlier.algorithm)
    if "batch_size" in given and taken.get("val_batch_size") == images_at_once(HALF, earlier.batch_size):
        taken["val_batch_size"] = HALF
    # Where a search begins is one choice, of three settings.
    begins = ("init", "init_from", "initial_fraction")
    if any(setting in given for setting in begins):
        taken = {name: value for name, value in taken.items() if name not in begins}
    config = SearchConfig.make({**taken, **given, "algorithm": kind}).resolved()
    if "data" not in given and config.data not in DATASET_NAMES and not Path(config.data).exists():
        raise DataError(
            f"the images of {file} are no longer in {config.data}; name the data to search on, as in hba search DIR "
            f"--config {file}"
        )
    return config


def _read(file: Path, own: type[Algorithm] | None) -> SearchConfig:
    try:
        # The device may not be on this machine.
        return read_config(file, own, without=("device",))
    except (ValueError, OSError, RecursionError) as error:
        raise RunError(
            f"config must be the {CONFIG_NAME} of a search, or its folder; {file} cannot be read: {reason_of(error)}"
        ) from None


def _settings_of(algorithm: Algorithm) -> frozenset[str]:
    return ALGORITHM_SETTINGS | type(algorithm).model_fields.keys()
