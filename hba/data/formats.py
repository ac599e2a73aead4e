"""The formats of data by name, and the source that settings name."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hba.data.arrays import DATASET_NAMES, builtin_source, npz_source
from hba.data.cache import cached_source
from hba.data.coco import ENDING as COCO_ENDING, coco_source
from hba.data.columns import Columns, LabelForm
from hba.data.config import COLUMN_SETTINGS, DataConfig, format_of
from hba.data.folder import folder_source
from hba.data.groups import groups_by_name
from hba.data.masks import masks_source
from hba.data.pool import Source, configured
from hba.data.saved import saved_source
from hba.data.splits import keep_classes
from hba.data.table import TableSettings, table_source
from hba.errors import DataError, SettingsError
from hba.tasks import task_of
from hba.utils.text import did_you_mean, listed


class Reader(NamedTuple):
    """How data of a format become a source."""

    source: Callable[[DataConfig], Source]
    settings: tuple[str, ...] = ()
    """Those of `OF_SOME_FORMATS` that have an effect."""


OF_SOME_FORMATS = (*COLUMN_SETTINGS, "download", "levels", "masks", "mask_colors")
"""Settings that have no effect on data of other formats."""


def _builtin(config: DataConfig) -> Source:
    return builtin_source(config.data, Path(config.data_root), config.download)


def _folder(config: DataConfig) -> Source:
    return folder_source(Path(config.data))


def _masks(config: DataConfig) -> Source:
    masks = Path(config.masks) if config.masks else None
    colors = Path(config.mask_colors) if config.mask_colors else None
    return masks_source(Path(config.data), masks, colors, config.stored_size)


def _coco(config: DataConfig) -> Source:
    return coco_source(Path(config.data), Path(str(config.masks)), config.stored_size)


def _npz(config: DataConfig) -> Source:
    return npz_source(Path(config.data))


def _prepared(config: DataConfig) -> Source:
    return cached_source(Path(config.data), config.stored_size)


def _saved(config: DataConfig) -> Source:
    columns, label_form = _columns_of(config)
    return saved_source(Path(config.data), columns, label_form, config.stored_size)


def _table(config: DataConfig) -> Source:
    settings = TableSettings(
        *_columns_of(config),
        image_folder=config.image_folder,
        image_ending=config.image_ending,
        skip_broken=config.skip_broken,
        group=config.group,
    )
    return table_source(Path(config.data), settings)


def _columns_of(config: DataConfig) -> tuple[Columns, LabelForm]:
    """The columns that the settings name, and how labels are read."""
    columns: Columns = {
        "path": config.path_column,
        "label": config.target or config.label_column,
        "split": config.split_column,
    }
    return columns, LabelForm(config.label_separator, config.target is not None)


READERS = {
    "builtin": Reader(_builtin, ("download", "levels")),
    "folder": Reader(_folder, ("levels",)),
    "masks": Reader(_masks, ("levels", "masks", "mask_colors")),
    "coco": Reader(_coco, ("levels", "masks")),
    "npz": Reader(_npz, ("levels",)),
    "prepared": Reader(_prepared),
    "saved": Reader(
        _saved, ("path_column", "label_column", "label_separator", "target", "levels")
    ),
    "table": Reader(_table, (*COLUMN_SETTINGS, "levels")),
}
"""By format: those of `format_of`, `builtin` for the data sets with a name, and `coco`
for images with a file of annotations.
"""


def find_source(config: DataConfig) -> Source:
    """The source that the settings name, with the chosen classes only.

    Raises:
        DataError: If there is no such source.
        SettingsError: For a setting that has no effect on it.
    """
    source_format = _format_of(config)
    if source_format != "builtin" and not Path(config.data).exists():
        meant = did_you_mean(config.data, DATASET_NAMES)
        raise DataError(
            "no such folder or dataset:"
            f" {config.data}{listed(meant, 'datasets', DATASET_NAMES)}"
        )
    reader = READERS[source_format]
    _check_effects(config, reader)
    # `prepare` has recorded what it left out. A data set by name is complete, so it is
    # not checked for broken images.
    skip_by_format = {"prepared": True, "builtin": config.skip_broken or False}
    skip_broken = skip_by_format.get(source_format, config.skip_broken)
    source = reader.source(config).map(
        lambda pool: configured(pool, skip_broken, config.stored_size, config.levels)
    )
    if config.group is not None and source.train.groups is None:
        pattern = config.group
        source = source.map(
            lambda pool: replace(pool, groups=groups_by_name(pool, pattern))
        )
    if config.classes is None:
        return source
    if task_of(source.train.labels).has_numbers:
        raise SettingsError("classes has no effect on numbers; omit it")
    return keep_classes(source, config.classes)


def _format_of(config: DataConfig) -> str:
    """The format of the data, a key of READERS."""
    if config.data in DATASET_NAMES:
        return "builtin"
    source_format = format_of(config.data)
    if config.masks is not None and source_format in ("folder", "masks"):
        is_coco = Path(config.masks).suffix.lower() == COCO_ENDING
        return "coco" if is_coco else "masks"
    return source_format


def _check_effects(config: DataConfig, reader: Reader) -> None:
    """SettingsError for a setting without effect on the data."""
    idle = [
        name
        for name in OF_SOME_FORMATS
        if name not in reader.settings and getattr(config, name)
    ]
    if "target" in idle:
        raise SettingsError(
            f"target is a column of a table (CSV, Parquet) or a saved dataset, and"
            f" {config.data} is none; give the table, or omit target"
        )
    if idle:
        raise SettingsError(f"{idle[0]} has no effect on {config.data}; omit it")
    of_classes = ("label_column", "label_separator", "classes")
    for name in of_classes if config.target is not None else ():
        if getattr(config, name) is not None:
            raise SettingsError(
                f"{name} is about classes, and target is a column of numbers; omit one"
            )
