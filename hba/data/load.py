"""From the name of a data set, a folder, a file or a torch Dataset to what a search or an evaluation may see."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from hba.data.arrays import DATASET_NAMES, TORCHVISION, builtin_source, from_dataset, in_memory, npz_source
from hba.data.cache import Prepared, cached_source, check_out, write_cache
from hba.data.config import DataConfig, format_of, resolved_data
from hba.data.folder import folder_source
from hba.data.images import EvaluationData, Images, LabelledImages, LazySplit, OnRead, SearchData
from hba.data.leakage import Listing, SeenImages, hashes_of_pixels
from hba.data.loader import StreamedImages
from hba.data.pool import Pool, Source
from hba.data.splits import Splits, keep_classes, split, take_training
from hba.data.table import Columns, saved_source, table_source
from hba.errors import DataError, SettingsError
from hba.utils.files import run_lock
from hba.utils.text import did_you_mean, listed

STREAM_ABOVE_BYTES = 8 * 10**9
AnyDataset = Dataset[Any] | Sequence[Any]
"""A torch Dataset, or a list, of pairs (image, label) as `hba.data.from_dataset` takes them."""
READ_SETTINGS = ("data", "image_size", "train_size", "val_size", "split_seed", "levels")
"""Of DataConfig, those that mean something for a torch Dataset; the others are about files."""
COLUMN_SETTINGS = ("path_column", "label_column", "split_column", "label_separator")
IDLE = ("train_size", "val_size", "stream", "workers")
"""Settings of data that say nothing of prepared images."""


def check_data(data: object, wanted: type[SearchData] | type[EvaluationData]) -> None:
    """SettingsError for data of another type than a search or an evaluation takes.

    Whether a Dataset, a list or a tuple can be used turns out when it is read.
    """
    if data is None or is_dataset(data) or isinstance(data, str | Path | wanted):
        return
    raise SettingsError(
        f"data must be a dataset's name, a folder or file, a Dataset or list of pairs (image, label), for an "
        f"evaluation two of them, or hba.data.{wanted.__name__} with hba.data.LabelledImages(images, labels), got "
        f"{type(data).__name__}"
    )


def find_source(config: DataConfig) -> Source:
    """The source that the settings name, with the classes asked for; DataError where there is none."""
    columns: Columns = {"path": config.path_column, "label": config.label_column, "split": config.split_column}
    place, kind = Path(config.data), "builtin" if config.data in DATASET_NAMES else format_of(config.data)
    if kind != "builtin" and not place.exists():
        meant = did_you_mean(config.data, DATASET_NAMES)
        raise DataError(f"no such folder or dataset: {config.data}{listed(meant, 'datasets', DATASET_NAMES)}")
    idle = {"table": (), "saved": ("split_column", "label_separator")}.get(kind, COLUMN_SETTINGS)
    idle += (() if kind == "builtin" else ("download",)) + (("levels",) if kind == "prepared" else ())
    if given := [name for name in idle if getattr(config, name)]:
        raise SettingsError(f"{given[0]} has no effect on {config.data}; omit it")
    if kind == "builtin":
        source = builtin_source(config.data, Path(config.data_root), config.download)
    elif kind == "table":
        source = table_source(place, columns, config.label_separator, config.skip_broken)
    elif kind == "saved":
        source = saved_source(place, columns)
    else:
        source = {"npz": npz_source, "prepared": cached_source, "folder": folder_source}[kind](place)
    skip_broken = config.skip_broken or kind == "prepared"

    def with_settings(pool: Pool) -> Pool:
        return replace(pool, image_size=config.stored_size, skip_broken=skip_broken, levels=config.levels)

    source = source.map(with_settings)
    return source if config.classes is None else keep_classes(source, config.classes)


def load_search_data(config: DataConfig, on_read: OnRead | None = None) -> SearchData:
    """Training and validation images. The test split's files are not opened."""
    source = find_source(config)
    splits = split(source, config.train_size, config.val_size, config.split_seed)
    facts, n_train, n_images = _facts(source, splits), len(splits.train), len(splits.train) + len(splits.val)
    return SearchData(
        source.name,
        source.class_names,
        _read(source.train.take(splits.train), config, on_read, total=n_images),
        _read((source.val or source.train).take(splits.val), config, on_read, before=n_train, total=n_images),
        not_images=(*source.left_out, *(item for pool in source.opened for item in pool.unused)),
        facts=facts,
        test_images=0 if splits.test is None else len(splits.test),
        listing=None if config.data in DATASET_NAMES else listing_of_search(source, splits),
    )


def load_evaluation_data(config: DataConfig, on_read: OnRead | None = None) -> EvaluationData:
    """The whole training set, or train_size of it, and the test split: the images that no search saw.

    Whether there is a test split is checked now; it is read when it is first used.
    """
    source = find_source(config)
    splits = split(source, None, None, config.split_seed)
    chosen = take_training(source, splits.available, config.train_size, config.split_seed)
    facts, open_test, listing = _facts(source, splits), source.test, None
    if open_test is not None and config.data in TORCHVISION:
        # Opening it reads its images.
        test = LazySplit(lambda: _read(open_test(), config))
    else:
        tested = test_pool(source, splits)
        listing = None if config.data in DATASET_NAMES else listing_of_test(source, tested)
        test = LazySplit(lambda: _read(tested, config), len(tested), _is_streamed(tested, config), tested.unused)
    train = _read(source.train.take(chosen), config, on_read, total=len(chosen))
    unused = (*source.left_out, *source.train.unused)
    return EvaluationData(source.name, source.class_names, train, test, not_images=unused, facts=facts, listing=listing)


def _facts(source: Source, splits: Splits) -> tuple[str, ...]:
    """What to know of the source. The levels of training images are checked; no test image is opened."""
    levels = source.train.take(splits.available).check_levels()
    return (*source.facts, *([] if levels is None else [levels]))


def _read(pool: Pool, config: DataConfig, on_read: OnRead | None = None, before: int = 0, total: int = 0) -> Images:
    """The images of a pool; large pools stay in their files. on_read: told of `total` images in all."""

    def count(done: int) -> None:
        if on_read is not None:
            on_read(before + done, total)

    if not _is_streamed(pool, config):
        return pool.read(count)
    count(len(pool))
    return StreamedImages.of(pool, config.workers)


def _is_streamed(pool: Pool, config: DataConfig) -> bool:
    """Whether the images of the pool are left in their files."""
    if not pool.items.can_stream:
        if config.stream:
            raise DataError(
                f"{config.data} cannot be streamed, which needs image files or prepared images; omit stream"
            )
        return False
    n_bytes = len(pool) * pool.items.n_channels * config.stored_size**2
    return n_bytes > STREAM_ABOVE_BYTES if config.stream is None else config.stream


def listing_of_search(source: Source, splits: Splits) -> Listing:
    """The images that a search trains and validates on."""
    chosen = (source.train.take(splits.train), (source.val or source.train).take(splits.val))
    return Listing(sum(map(len, source.opened)), chosen)


def listing_of_test(source: Source, test: Pool) -> Listing:
    """The images of the test split."""
    return Listing(sum(map(len, source.opened)), (test,))


def test_pool(source: Source, splits: Splits) -> Pool:
    """The images of the test split, which an evaluation may list."""
    if source.test is not None:
        return source.test()
    assert splits.test is not None
    return source.train.take(splits.test)


def seen_by_search(listing: Listing | None, parts: Iterable[Images], is_named: bool) -> dict[str, Any] | None:
    """What the file of a schedule tells of the images of its search; None for named data sets, whose splits follow from
    the settings, and for images of an unknown kind.
    """
    if listing is not None:
        return SeenImages.of_listing(listing).to_json()
    in_memory = [part.images for part in parts if isinstance(part, LabelledImages)]
    if is_named or len(in_memory) < 2:
        return None
    return SeenImages.of("pixels", None, (one for images in in_memory for one in hashes_of_pixels(images))).to_json()


def prepare(data: str | Path, out: str | Path, *, on_read: OnRead | None = None, **settings: Any) -> Prepared:
    """Decode and resize all images of the data once, into the folder `out`, which takes their place from then on.

    data: as `hba.search` takes them, but in files. settings: fields of DataConfig that say how images are read, such as
    image_size, skip_broken, levels and classes. on_read: called with the number of images that are done, and of all.
    What an interrupted call has left in `out` is overwritten.

    A search or an evaluation on `out` finds what it finds on the data with the same image_size: the same splits, pixels
    and colours. Test images are decoded too, but no search opens them. DataError for data that cannot be used,
    SettingsError for settings that have no effect, and RunError where `out` cannot be written, holds something else, or
    has no room.
    """
    if idle := [name for name in settings if name in IDLE]:
        raise SettingsError(f"{idle[0]} has no effect on prepared images, of which all are kept; omit it")
    config = DataConfig.make(resolved_data({**settings, "data": str(data)}))
    if Path(config.data).exists() and format_of(config.data) == "prepared":
        raise SettingsError(f"the images in {config.data} are prepared already; name those that they are made of")
    folder = Path(out)
    # Checked before the lock leaves its file in somebody else's folder.
    check_out(folder)
    with run_lock(folder):
        check_out(folder)
        source = find_source(config)
        splits = split(source, None, None, config.split_seed)
        source = replace(source, facts=_facts(source, splits))
        return write_cache(folder, source, on_read)


def is_dataset(data: object) -> bool:
    """Whether these are data of torch, a list or a tuple; as_search_data and as_evaluation_data check them further."""
    return isinstance(data, Dataset | DataLoader | list | tuple)


def name_of(data: Any) -> str:
    """What a dataset is called in settings and files: its class. Of a pair, the first one's."""
    return type(data[0] if _is_pair(data) else data).__name__


def check_settings_of_dataset(settings: Mapping[str, Any]) -> None:
    """SettingsError for a setting about files that was given beside a dataset."""
    idle = [name for name in settings if name in DataConfig.model_fields and name not in READ_SETTINGS]
    if idle:
        raise SettingsError(f"{idle[0]} has no effect on a Dataset, whose images are in memory; omit it")


def as_search_data(dataset: AnyDataset, config: DataConfig, on_read: OnRead | None = None) -> SearchData:
    """A dataset as a search takes it: all its images in memory, split into training and validation like a folder.

    config: its stored_size is the side in pixels that images are fitted to, 32 unless image_size is set; val_size,
    train_size and split_seed decide the split, but no test split is taken out. Each sample is read once, so random
    transforms are drawn once. DataError for anything but a dataset of pairs.
    """
    if _is_pair(dataset):
        raise DataError("a search takes one dataset, got a pair: give the training set only, which it splits")
    images = _read_dataset(dataset, config, on_read)
    source = _source_in_memory(dataset, images, images.labels)
    splits = split(source, config.train_size, config.val_size, config.split_seed)
    return SearchData(source.name, source.class_names, _part(images, splits.train), _part(images, splits.val))


def as_evaluation_data(pair: Any, config: DataConfig, on_read: OnRead | None = None) -> EvaluationData:
    """A pair (train, test) of datasets as an evaluation takes it, all images in memory.

    config: as in as_search_data; train_size keeps a stratified part of the training images. DataError for anything but
    such a pair.
    """
    if not _is_pair(pair):
        raise DataError(f"an evaluation takes a pair (train, test) of datasets, got a single {type(pair).__name__}")
    train, test = (_read_dataset(part, config, on_read) for part in pair)
    source = _source_in_memory(pair[0], train, torch.cat([train.labels, test.labels]))
    chosen = take_training(source, np.arange(len(train)), config.train_size, config.split_seed)
    return EvaluationData(source.name, source.class_names, _part(train, chosen), test)


def _is_pair(data: object) -> bool:
    """(train, test): only a tuple, because a list may hold two pairs (image, label)."""
    return isinstance(data, tuple) and len(data) == 2 and all(isinstance(part, Dataset | list) for part in data)


def _read_dataset(dataset: Any, config: DataConfig, on_read: OnRead | None) -> LabelledImages:
    if isinstance(dataset, IterableDataset | DataLoader):
        raise DataError(
            f"data must be a Dataset with __len__ and __getitem__, got {type(dataset).__name__}; give the .dataset of "
            "a DataLoader, and list(dataset) of what ends"
        )
    return from_dataset(dataset, image_size=config.stored_size, levels=config.levels, on_read=on_read)


def _part(images: LabelledImages, indices: np.ndarray) -> LabelledImages:
    return LabelledImages(images.images[indices], images.labels[indices])


def _source_in_memory(dataset: Any, images: LabelledImages, labels: Tensor) -> Source:
    """A source from which no test split is drawn, because it has one. labels: also those of its test split.

    Classes are named as the dataset names them, as torchvision's do, also under a Subset; else by their numbers.
    """
    names = tuple(map(str, range(int(labels.max()) + 1)))
    own = getattr(getattr(dataset, "dataset", dataset), "classes", None)
    if isinstance(own, list | tuple) and len(own) == len(names) and all(isinstance(name, str) for name in own):
        names = tuple(own)
    pool = in_memory(images.images.numpy(), images.labels.numpy(), name_of(dataset))
    return Source(name_of(dataset), names, pool, test=lambda: pool)
