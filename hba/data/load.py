"""From a dataset's name or folder to the splits that a search or an evaluation may see."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from hba.data.checks import check_class_names, check_multi_label
from hba.data.config import DataConfig, check_clash
from hba.data.folder import FilePool
from hba.data.identity import Listing
from hba.data.images import Images, LabelledImages, OnRead, Pool, Source
from hba.data.labels import is_multi_label, present_classes
from hba.data.lazy_split import LazySplit
from hba.data.levels import Deep, Levels, levels_of
from hba.data.mapped import MappedImages
from hba.data.named import DATASET_NAMES
from hba.data.pictures import PicturePool
from hba.data.prepared import PreparedPool
from hba.data.skipped import SkippedFile, without_doubles
from hba.data.sources import find_source
from hba.data.splits import Splits, split, take_training
from hba.data.streaming import StreamedImages
from hba.errors import DataError, SettingsError
from hba.utils.text import first_of

STREAM_ABOVE_BYTES = 8 * 10**9
SHOWN_CLASSES = 5
_STAYS = StreamedImages | MappedImages
"""Images that stay in their files."""


@dataclass(frozen=True, repr=False)
class SearchData:
    """What a policy search may see. There is no test split in it.

    class_names: by label. DataError for images and labels that do not fit together.

    not_images: files that were found among the images. facts: what a person should be told of how the data were read,
    each a short sentence. levels: those that are black and white in images of more than 8 bits, None without such.
    test_images: how many are kept for the test, out of the same pool; 0 where there is a test part apart, None where
    nothing is known of one. listing: of a folder, where the images come from.
    """

    name: str
    class_names: tuple[str, ...]
    train: Images
    val: Images
    not_images: tuple[SkippedFile, ...] = ()
    facts: tuple[str, ...] = ()
    levels: Levels | None = None
    test_images: int | None = None
    listing: Listing | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "class_names", check_parts(self.class_names, training=self.train, validation=self.val))

    def __repr__(self) -> str:
        return f"SearchData({self.name!r}, {_classes(self.class_names)}, train={self.train!r}, val={self.val!r})"

    @property
    def left_out(self) -> tuple[SkippedFile, ...]:
        """Every file that is not used, as far as it was tried, with the reason."""
        return without_doubles(self.not_images, self.train.left_out, self.val.left_out)

    def in_color(self) -> "SearchData":
        """Images in memory with three channels."""
        return replace(self, train=_in_color(self.train), val=_in_color(self.val))

    def to(self, device: torch.device) -> "SearchData":
        return replace(self, train=self.train.to(device), val=self.val.to(device))

    def close(self) -> None:
        """End everything that still reads images ahead."""
        self.train.close()
        self.val.close()


@dataclass(frozen=True, repr=False)
class EvaluationData:
    """What a policy evaluation sees: all images for training, and the test split, for the end only.

    class_names, not_images, facts and levels: as in SearchData. listing: of a folder, where the test images come from.
    """

    name: str
    class_names: tuple[str, ...]
    train: Images
    test: Images | LazySplit
    not_images: tuple[SkippedFile, ...] = ()
    facts: tuple[str, ...] = ()
    levels: Levels | None = None
    listing: Listing | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "class_names", check_parts(self.class_names, training=self.train, test=self.test))

    def __repr__(self) -> str:
        return f"EvaluationData({self.name!r}, {_classes(self.class_names)}, train={self.train!r}, test={self.test!r})"

    @property
    def left_out(self) -> tuple[SkippedFile, ...]:
        """Every file that is not used, with the reason; broken test images once they are read."""
        return without_doubles(self.not_images, self.train.left_out, self.test.left_out)

    @property
    def n_test(self) -> int | None:
        """Number of test images; None where only reading them would tell."""
        return self.test.n_known if isinstance(self.test, LazySplit) else len(self.test)

    @property
    def is_streamed(self) -> bool:
        """Whether images of a split stay in their files, as far as that is known before they are read."""
        test = self.test.is_streamed if isinstance(self.test, LazySplit) else isinstance(self.test, _STAYS)
        return isinstance(self.train, _STAYS) or test

    def in_color(self) -> "EvaluationData":
        """Images in memory with three channels."""
        test = self.test if isinstance(self.test, LazySplit) else _in_color(self.test)
        return replace(self, train=_in_color(self.train), test=test)

    def to(self, device: torch.device) -> "EvaluationData":
        return replace(self, train=self.train.to(device), test=self.test.to(device))


def check_data(data: object, wanted: type[SearchData] | type[EvaluationData], data_root: object = None) -> None:
    """SettingsError for data that are neither a name, a folder or file, None, a dataset, nor of the class wanted, and
    for a dataset's name that a folder of images has too.

    Whether a Dataset, a list or a tuple can be used is found out when it is read.
    """
    check_clash(data, data_root)
    if data is None or isinstance(data, str | Path | Dataset | DataLoader | list | tuple | wanted):
        return
    is_search = wanted is SearchData
    datasets = "a Dataset or list of pairs (image, label)" if is_search else "a pair (train, test) of Datasets or lists"
    parts = ", ".join(list(wanted.__dataclass_fields__)[:4])
    raise SettingsError(
        f"data must be a dataset's name, a folder or file, {datasets}, or {wanted.__name__}, got "
        f"{type(data).__name__}; make images of arrays by hba.data.LabelledImages(images, labels), and of these "
        f"hba.data.{wanted.__name__}({parts})"
    )


def check_parts(class_names: Sequence[str], **parts: object) -> tuple[str, ...]:
    """The class names; DataError where they do not fit the labels of the parts, or the labels do not fit each other."""
    if isinstance(class_names, str) or not all(isinstance(name, str) for name in class_names):
        raise DataError(f"class_names must be a list of names, one for each class, got {class_names!r}")
    names = tuple(class_names)
    for name, part in parts.items():
        # Asked of the class, because images that are held back are read by being looked at.
        if isinstance(part, torch.Tensor) or not hasattr(type(part), "to"):
            raise DataError(f"the {name} images must be hba.data.LabelledImages, got {type(part).__name__}")
    kept = {name: part for name, part in parts.items() if isinstance(part, LabelledImages)}
    for name, part in kept.items():
        if not len(part):
            raise DataError(f"there must be at least one {name} image")
        if is_multi_label(part.labels):
            check_multi_label(names, part.labels, name)
        else:
            check_class_names(names, int(part.labels.max()), int(part.labels.min()), name)
    if len({is_multi_label(part.labels) for part in kept.values()}) > 1:
        raise DataError(f"labels must be of one kind, but the {' and '.join(kept)} images have a number and a matrix")
    shapes = {name: tuple(part.images.shape[1:]) for name, part in kept.items()}
    if len(set(shapes.values())) > 1:
        shown = " and ".join(f"{shape} ({name})" for name, shape in shapes.items())
        raise DataError(f"all images must have one shape, got {shown}")
    numbers = [int(part.labels.max()) for part in kept.values() if not is_multi_label(part.labels)]
    if len(numbers) == len(parts) and (n_found := 1 + max(numbers)) < len(names):
        raise DataError(f"there are {len(names)} class names, but labels of {n_found} classes only: 0 to {n_found - 1}")
    return names


def _classes(class_names: Sequence[str]) -> str:
    return f"{len(class_names)} classes: {first_of(class_names, SHOWN_CLASSES)}"


def _in_color(images: Images) -> Images:
    return images.in_color() if isinstance(images, LabelledImages) else images


def load_search_data(config: DataConfig, on_read: OnRead | None = None) -> SearchData:
    """Training and validation images. The test split's files are not opened."""
    source = find_source(config)
    splits = split(source, config.train_size, config.val_size, config.split_seed)
    source, levels = with_levels(source, splits, config.levels)
    read = _Reader(config, on_read, total=len(splits.train) + len(splits.val))
    train = read(source.train, splits.train)
    val = read(source.val or source.train, splits.val)
    not_images = without_doubles(source.left_out, source.train.left_out, source.val.left_out if source.val else ())
    test_images = 0 if splits.test is None else len(splits.test)
    listing = None if config.data in DATASET_NAMES else Listing.for_search(source, splits)
    return SearchData(
        source.name, source.class_names, train, val, not_images, source.facts, levels, test_images, listing=listing
    )


def notes_on_classes(data: "SearchData | EvaluationData") -> Iterator[str]:
    """Sentences that name the classes without a training image, and for a search those without a validation image."""
    if missing := _missing(data, data.train):
        yield f"no training images of {missing}: they cannot be learned"
    if isinstance(data, SearchData) and (missing := _missing(data, data.val)):
        yield f"no validation images of {missing}: the policy is not searched for what it does to such images"


def _missing(data: "SearchData | EvaluationData", part: Images) -> str:
    """The classes that no image of the part has; empty for none."""
    missing = sorted(set(range(len(data.class_names))) - set(present_classes(part.labels)))
    return first_of([data.class_names[label] for label in missing]) if missing else ""


def load_evaluation_data(config: DataConfig, on_read: OnRead | None = None) -> EvaluationData:
    """The whole training set, or train_size of it, and the test split: the images that no search saw.

    That there is a test split is checked now; it is read when it is first used.
    """
    source = find_source(config)
    splits = split(source, None, None, config.split_seed)
    source, levels = with_levels(source, splits, config.levels)
    train_indices = take_training(source, splits.available, config.train_size, config.split_seed)
    test = _held_back(config, source, splits.test)
    train = _Reader(config, on_read, total=len(train_indices))(source.train, train_indices)
    not_images = without_doubles(source.left_out, source.train.left_out)
    listing = None if config.data in DATASET_NAMES else Listing.for_test(source, splits)
    return EvaluationData(
        source.name, source.class_names, train, test, not_images, source.facts, levels, listing=listing
    )


def with_levels(source: Source, splits: Splits, given: Levels | None) -> tuple[Source, Levels | None]:
    """The source with one scale for all its images of more than 8 bits, and a fact that tells it.

    The scale is that of all images for training and validation, even where fewer are used. So a search and an
    evaluation find the same. No test image is opened.
    """
    train, val, test = source.train, source.val, source.test
    if not isinstance(train, PicturePool):
        return source, None
    levels, facts = levels_of(_deep(train, splits.available, val), given)

    def scaled(pool: Pool) -> Pool:
        return pool.scaled(levels) if isinstance(pool, PicturePool) else pool

    scaled_source = replace(
        source,
        train=scaled(train),
        val=None if val is None else scaled(val),
        test=None if test is None else lambda: scaled(test()),
        facts=(*source.facts, *facts),
    )
    return scaled_source, levels


def _deep(train: PicturePool, available: np.ndarray, val: Pool | None) -> Generator[Deep]:
    """The images of more than 8 bits, of those for training and validation."""
    yield from train.deep(available)
    if isinstance(val, PicturePool):
        yield from val.deep(np.arange(len(val.labels)))


def _held_back(config: DataConfig, source: Source, indices: np.ndarray | None) -> LazySplit:
    """indices: into the training pool, None where the source has a test pool."""

    def all_of(pool: Pool) -> LazySplit:
        return part_of(pool, np.arange(len(pool.labels)))

    def part_of(pool: Pool, chosen: np.ndarray) -> LazySplit:
        reader = _Reader(config, None, total=len(chosen))
        is_streamed = reader.streams(pool, len(chosen))
        return LazySplit(
            lambda: reader(pool, chosen),
            len(chosen),
            config.stored_size,
            is_streamed=is_streamed,
            not_images=pool.left_out,
        )

    if source.test is None:
        assert indices is not None
        return part_of(source.train, indices)
    if source.check_test is None:
        return all_of(source.test())
    source.check_test()
    open_test = source.test
    return LazySplit(lambda: all_of(open_test()).opened(), None, config.stored_size)


@dataclass
class _Reader:
    """Reads several pools and counts their images as one piece of work; large ones are left in their files."""

    config: DataConfig
    on_read: OnRead | None
    total: int
    done_before: int = 0

    def __call__(self, pool: Pool, indices: np.ndarray) -> Images:
        images = self._read(pool, indices)
        self.done_before += len(indices)
        return images

    def _read(self, pool: Pool, indices: np.ndarray) -> Images:
        size = self.config.stored_size
        if self.config.stream and not isinstance(pool, FilePool | PreparedPool):
            raise DataError(
                f"only images in files of their own, and prepared ones, can be streamed, not those of "
                f"{self.config.data}; omit stream"
            )
        if not isinstance(pool, FilePool | PreparedPool) or not self.streams(pool, len(indices)):
            return pool.read(indices, size, self._count)
        self._count(len(indices), len(indices))
        if isinstance(pool, PreparedPool):
            return MappedImages.of(pool, indices, size, self.config.workers)
        return StreamedImages.of(pool, indices, size, self.config.workers)

    def streams(self, pool: Pool, n_images: int) -> bool:
        """Whether as many images of the pool are left in their files."""
        if self.config.stream is not None:
            return self.config.stream
        if isinstance(pool, FilePool | PreparedPool):
            n_channels = pool.about.channels if isinstance(pool, PreparedPool) else 3
            return n_images * n_channels * self.config.stored_size**2 > STREAM_ABOVE_BYTES
        return False

    def _count(self, done: int, _: int) -> None:
        if self.on_read is not None:
            self.on_read(self.done_before + done, self.total)
