"""From settings to the source of images that they name: a dataset, a folder, or a file."""

from pathlib import Path

from hba.data.classes import keep_classes
from hba.data.columns import Columns
from hba.data.config import DataConfig
from hba.data.folder import folder_source
from hba.data.formats import format_of
from hba.data.images import Source
from hba.data.named import DATASET_NAMES, named_source
from hba.data.npz import npz_source
from hba.data.prepared import prepared_source
from hba.data.saved import saved_source
from hba.data.table import table_source
from hba.errors import DataError, SettingsError
from hba.utils.text import did_you_mean, listed


def find_source(config: DataConfig) -> Source:
    """What the settings name, with the classes asked for; DataError where there is none."""
    source = _whole_source(config)
    return source if config.classes is None else keep_classes(source, config.classes)


def _whole_source(config: DataConfig) -> Source:
    columns = Columns(config.path_column, config.label_column, config.split_column, config.label_separator)
    if config.data in DATASET_NAMES:
        columns.check_idle(config.data)
        return named_source(config.data, Path(config.data_root), config.download, config.skip_broken)
    place = Path(config.data)
    if not place.exists():
        meant = did_you_mean(config.data, DATASET_NAMES)
        raise DataError(f"no such folder or dataset: {config.data}{listed(meant, 'datasets', DATASET_NAMES)}")
    kind = format_of(place)
    if config.download:
        raise SettingsError(f"download has no effect on {place}, {_TEXTS[kind]}; omit it")
    if kind == "table":
        return table_source(place, columns, config.skip_broken)
    if kind == "saved":
        return saved_source(place, columns, config.skip_broken)
    columns.check_idle(config.data)
    if kind == "npz":
        return npz_source(place, config.skip_broken)
    if kind == "prepared":
        if config.levels is not None:
            raise SettingsError(f"levels have no effect on {place}, {_TEXTS[kind]}; prepare them with levels")
        return prepared_source(place, config.split_seed, config.classes)
    return _of_folder(place, config.skip_broken)


_TEXTS = {
    "folder": "a folder of images",
    "table": "a table of images",
    "npz": "a file of arrays",
    "saved": "a saved dataset",
    "prepared": "prepared images",
}


def _of_folder(folder: Path, skip_broken: bool) -> Source:
    source = folder_source(folder, skip_broken)
    if len(source.class_names) < 2:
        (name,) = source.class_names
        raise DataError(
            f"{folder} has one class only, {name!r}: add a sub-folder of images for another, or where the classes are "
            f"further down, give the folder that holds them"
        )
    return source
