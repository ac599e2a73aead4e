"""Which sub-folders of a folder are splits and which are classes; refused where it could be either."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from hba.data.listing import files_in, holds_images, images_directly_in, subfolders
from hba.data.skipped import SkippedFile
from hba.errors import DataError
from hba.utils.text import first_of

SHOWN_NAMES = 4
SPLITS = ("train", "val", "test")
UNCLEAR = "val or test"

_ROLE_OF: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("train", "training", "trn"), "train"),
        **dict.fromkeys(("val", "valid", "validation", "validate", "dev", "devel", "development"), "val"),
        **dict.fromkeys(("test", "tests", "testing", "tst"), "test"),
        **dict.fromkeys(("eval", "evaluation", "holdout", "heldout"), UNCLEAR),
    }
)
"""By word; an evaluation's images may be anybody's, so a person must say which."""

_FILLERS = frozenset({"set", "data", "dataset", "split", "part", "folder", "images", "image", "imgs", "img"})
"""Words that change nothing: training_set, test-images."""

_CLASSES_TOO = frozenset({"train", "valid"})
"""Names of splits that a class has as well, a vehicle or the opposite of invalid."""

NEARLY_ALL = 0.9


@dataclass(frozen=True)
class Layout:
    """Where classes lie. train: the folder of class folders; val and test: None where there is no such split.

    left_out: files beside the splits. is_split: whether train is a split's folder.
    """

    train: Path
    val: Path | None = None
    test: Path | None = None
    left_out: tuple[SkippedFile, ...] = ()
    is_split: bool = False

    @property
    def fact(self) -> str:
        """Which folders are read as which splits, where their names are not train, val and test; else empty."""
        found = {"training": self.train, "validation": self.val, "test": self.test}
        names = [path.name for path in found.values() if path is not None]
        if not self.is_split or set(names) <= set(SPLITS):
            return ""
        return ", ".join(f"{part} images from {path.name}" for part, path in found.items() if path is not None)


@dataclass(frozen=True)
class _Named:
    """A folder that is called like a split. rest: the words of its name that are not the split's, () for none."""

    path: Path
    role: str
    rest: tuple[str, ...]


def find_layout(folder: Path) -> Layout:
    """Splits where the folder has them, else classes alone. DataError, with what to rename, for what could be both."""
    children = subfolders(folder)
    named = [split for split in map(_named_like_a_split, children) if split is not None]
    plain: dict[str, Path] = {}
    for split in named:
        if not split.rest and split.role in plain and any(subfolders(path) for path in (plain[split.role], split.path)):
            raise DataError(
                f"{plain[split.role]} and {split.path.name} both mean {split.role}: keep one under the name "
                f"{split.role}, and rename or move the other"
            )
        if not split.rest:
            plain.setdefault(split.role, split.path)
    if "train" in plain and subfolders(plain["train"]):
        return _split_layout(folder, children, named, plain)
    _refuse_splits_as_classes(folder, children, named)
    _refuse_equal_subfolders(folder, children)
    return Layout(folder)


def unknown_class(part: str, name: str, class_names: Collection[str]) -> DataError:
    """For a split that has a class that the training images do not have."""
    like = differs_in_case_only(name, class_names)
    hint = (
        "; rename it, or move it away"
        if like is None
        else f"; they have {like!r}, written otherwise (case, accents): rename one of the two"
    )
    return DataError(f"{part} has the class {name!r}, which the training images do not have{hint}")


def without_class(folder: Path, first: Path) -> DataError:
    """For images that lie beside the folders of classes, where these have none."""
    return DataError(
        f"{folder} holds images without a class, {first.name} first: sort them into one sub-folder for each class, or "
        "move the folder away"
    )


def differs_in_case_only(name: str, others: Collection[str]) -> str | None:
    """The one of the others that looks like the name, but for case and the encoding of its letters."""
    return next((other for other in others if _plain(other) == _plain(name)), None)


def split_called(name: str) -> str | None:
    """train, val, test or `val or test`, whichever the name means in its words; None for a name that says more."""
    named = None if "/" in name else _named_like_a_split(Path(name))
    return None if named is None or named.rest else named.role


def _plain(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold().strip()


def _named_like_a_split(path: Path) -> _Named | None:
    """By the words of its name, of which exactly one means a split."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[^\W\d_])(?=\d)", " ", path.name)
    words = [word for word in re.split(r"[\W_]+", apart.casefold()) if word and word not in _FILLERS]
    # trainset, testdata: a filler without a gap.
    words = [re.sub(f"(?<=.)({'|'.join(_FILLERS)})$", "", word) if word not in _ROLE_OF else word for word in words]
    roles = [word for word in words if word in _ROLE_OF]
    if len(roles) != 1:
        return None
    return _Named(path, _ROLE_OF[roles[0]], tuple(word for word in words if word not in roles))


def _split_layout(folder: Path, children: Sequence[Path], named: Sequence[_Named], plain: Mapping[str, Path]) -> Layout:
    train = plain["train"]
    classes = subfolders(train)
    class_names = {path.name for path in classes}
    _refuse_splits_as_classes(train, classes, [split for split in map(_named_like_a_split, classes) if split])
    if UNCLEAR in plain and holds_images(plain[UNCLEAR]):
        raise DataError(
            f"{plain[UNCLEAR]} could be the validation or the test split: call it val, which a search may see, or "
            "test, which it may not"
        )
    splits = {role: plain.get(role) for role in SPLITS}
    for path in filter(None, splits.values()):
        _refuse_without_classes(path)
    beside = [path for path in children if path not in splits.values()]
    has_other_split = any(
        path is not None and class_names & {child.name for child in subfolders(path)}
        for role, path in splits.items()
        if role != "train"
    )
    for path in beside:
        _check_beside(path, class_names, [split for split in named if split.path == path], splits)
    with_images = [path for path in beside if holds_images(path)]
    if with_images and not has_other_split:
        raise DataError(
            f"{train} is read as the training split, but {_listed(with_images)} beside it would then not be read: "
            f"where {train.name} is a class, rename it, such as to {train.name}_class; where it is not, move the "
            f"others out of {folder}"
        )
    left_out = [
        SkippedFile(str(path), f"beside the split {train.name}") for other in with_images for path in files_in(other)[0]
    ]
    return Layout(train, splits["val"], splits["test"], tuple(left_out), is_split=True)


def _refuse_without_classes(split: Path) -> None:
    loose = images_directly_in(split)
    if loose and not subfolders(split):
        raise without_class(split, loose[0])


def _check_beside(
    path: Path, class_names: set[str], named: Sequence[_Named], splits: Mapping[str, Path | None]
) -> None:
    """A split under a name that is not understood would be ignored silently."""
    if {child.name for child in subfolders(path)} & class_names:
        raise DataError(f"{path} holds classes, but a split must be called {', '.join(SPLITS)}; rename or move it")
    if named and splits.get(named[0].role) is None and holds_images(path):
        raise DataError(f"{path} is called like a split: rename it to {named[0].role}, or move it")


def _refuse_splits_as_classes(folder: Path, children: Sequence[Path], named: Sequence[_Named]) -> None:
    """What is called like a split and was not read as one would be learned as a class."""
    plain = [split for split in named if not split.rest]
    if len(plain) == 1 and len(children) > 1:
        (only,) = plain
        if only.path.name.casefold() in _CLASSES_TOO and not subfolders(only.path):
            plain = []
    roles_of_rest: dict[tuple[str, ...], set[str]] = {}
    for split in named:
        roles_of_rest.setdefault(split.rest, set()).add(split.role)
    found = plain or [split for split in named if len(roles_of_rest[split.rest]) > 1]
    if not found:
        return
    renamed = [f"{split.path.name} to {split.role}" for split in found if split.path.name != split.role]
    to_do = f" (rename {', '.join(renamed)})" if renamed else ""
    raise DataError(
        f"{folder} would be read with {_listed([split.path for split in found])} as "
        f"{'a class' if len(found) == 1 else 'classes'}, but splits are called so: splits must lie in the folder that "
        f"is given as train/<class>, val/<class>, test/<class>{to_do}; classes need other names"
    )


def _refuse_equal_subfolders(folder: Path, children: Sequence[Path]) -> None:
    """Where all classes have the same sub-folders, those are the classes, or splits of each class."""
    counts = Counter(child.name for path in children for child in subfolders(path))
    common = [name for name, count in counts.items() if count >= max(2, math.ceil(NEARLY_ALL * len(children)))]
    if len(common) < 2:
        return
    first = children[0].name
    if any(_named_like_a_split(Path(name)) for name in common):
        to_do = f"put the images of {folder / first / common[0]} into {folder / common[0] / first}, and so on"
    else:
        to_do = (
            f"where {common[0]} is a class, the folders above must be called train, val or test; where {first} is one, "
            "move its images out of their sub-folders"
        )
    raise DataError(
        f"(nearly) all folders in {folder} have the same sub-folders ({_quoted(common)}), so the classes cannot be "
        f"told: {to_do}"
    )


def _listed(paths: Sequence[Path]) -> str:
    return _quoted([path.name for path in paths])


def _quoted(names: Sequence[str]) -> str:
    """`'a', 'b', 'c', 'd' and 3 more`."""
    return first_of([repr(name) for name in names], SHOWN_NAMES)
