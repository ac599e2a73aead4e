"""Image folders: DIR/<class>/*, or DIR/train/<class>/* with optional DIR/val and DIR/test."""

import contextlib
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from hba.data.images import LabelledImages, OnRead, Source, of_classes
from hba.data.layout import differs_in_case_only, find_layout
from hba.data.left_out import LeftOut
from hba.data.levels import DECODE_ERRORS, N_READERS, Levels, is_deep, to_8_bits
from hba.data.listing import endings_of, files_in, images_directly_in, subfolders
from hba.errors import DataError

NO_CLASS = -1


@dataclass(frozen=True)
class FilePool:
    """A pool of image files. skip_broken: omit unreadable files and report them, instead of DataError.

    folder: where all of them are. unused: files that are no images, each with the label of its class or NO_CLASS.
    levels: what becomes black and white in images of more than 8 bits.
    """

    folder: Path
    paths: tuple[Path, ...]
    labels: np.ndarray
    skip_broken: bool
    unused: tuple[tuple[int, LeftOut], ...] = ()
    levels: Levels | None = None

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        return tuple(item for _, item in self.unused)

    def restricted(self, keep: Sequence[int]) -> "FilePool":
        chosen, labels = of_classes(self.labels, keep)
        number = {NO_CLASS: NO_CLASS, **{label: place for place, label in enumerate(keep)}}
        unused = tuple((number[label], item) for label, item in self.unused if label in number)
        return replace(self, paths=tuple(self.paths[index] for index in chosen), labels=labels, unused=unused)

    def read(self, indices: np.ndarray, image_size: int, on_read: OnRead | None = None) -> LabelledImages:
        paths = [self.paths[index] for index in indices]
        images: list[Tensor] = []
        labels: list[int] = []
        broken: list[LeftOut] = []
        # Closing ends the reader threads when a broken image, or Ctrl-C, ends the loop.
        with contextlib.closing(_read_in_order(paths, image_size, self.levels)) as results:
            for number, (path, index, result) in enumerate(zip(paths, indices, results, strict=True), start=1):
                if isinstance(result, Tensor):
                    images.append(result)
                    labels.append(int(self.labels[index]))
                elif self.skip_broken:
                    broken.append(LeftOut(str(path), result))
                else:
                    raise broken_image(path, result)
                if on_read is not None:
                    on_read(number, len(paths))
        if not images:
            raise DataError(f"none of {len(paths)} images could be read, {paths[0]} first")
        return LabelledImages(torch.stack(images), torch.tensor(labels), tuple(broken))


def folder_source(folder: Path, skip_broken: bool = False) -> Source:
    """The folder as a source of images. Reads names only; raises DataError for a folder that cannot be used."""
    if folder.is_file():
        raise DataError(
            f"{folder} is a file; give a folder with one sub-folder of images for each class (unpack an archive, sort "
            "the images of a list)"
        )
    if not folder.is_dir():
        raise DataError(f"no such folder: {folder}")
    layout = find_layout(folder)
    class_names = _class_names(layout.train)
    pool = partial(_pool, class_names=class_names, skip_broken=skip_broken)
    train = pool(layout.train)
    return Source(
        name=str(folder),
        class_names=class_names,
        train=train,
        val=None if layout.val is None else pool(layout.val, misses_classes=True),
        test=None if layout.test is None else partial(pool, layout.test, misses_classes=True),
        left_out=layout.left_out,
        facts=(layout.fact,) if layout.fact else (),
    )


def imagenet_source(root: Path, skip_broken: bool = False) -> Source:
    """ILSVRC 2012: root/imagenet/train/<wnid>/*.JPEG, and root/imagenet/val/<wnid>/*.JPEG as the test pool.

    Its validation images are what the literature reports errors on, so no search may see them; a search takes its own
    out of train/. The labels of ILSVRC's test images were never published.
    """
    folder = root / "imagenet"
    for part in ("train", "val"):
        if not (folder / part).is_dir():
            raise DataError(
                f"imagenet is not in {root}: {folder / part} must hold one sub-folder of images for each class; give "
                "its place with --data-root (it cannot be downloaded)"
            )
    class_names = _class_names(folder / "train")
    pool = partial(_pool, class_names=class_names, skip_broken=skip_broken)
    return Source("imagenet", class_names, train=pool(folder / "train"), test=partial(pool, folder / "val"))


def read_image(path: Path, image_size: int, levels: Levels | None = None) -> Tensor:
    """One file as uint8 (3, image_size, image_size): upright, RGB, shorter side resized, centre cut out.

    Transparent pixels lie on white, grey and palette images become RGB. levels: those that become 0 and 255 in images
    of more than 8 bits; ValueError for such an image without them.
    """
    with Image.open(path) as file:
        # Lets a JPEG decoder skip what the small result does not need.
        file.draft("RGB", (2 * image_size, 2 * image_size))
        return fitted(ImageOps.exif_transpose(file), image_size, levels)


def fitted(image: Image.Image, image_size: int, levels: Levels | None = None) -> Tensor:
    """read_image for an image that stands upright."""
    image = _to_rgb(image, levels)
    width, height = image.size
    scale = image_size / min(width, height)
    size = [max(image_size, round(height * scale)), max(image_size, round(width * scale))]
    pixels = TF.pil_to_tensor(TF.resize(image, size, antialias=True))
    return TF.center_crop(pixels, [image_size, image_size])


def _to_rgb(image: Image.Image, levels: Levels | None) -> Image.Image:
    if is_deep(image):
        image = to_8_bits(image, levels)
    if image.has_transparency_data:
        over = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", over.size, "white"), over)
    return image.convert("RGB")


def _class_names(folder: Path) -> tuple[str, ...]:
    names = tuple(path.name for path in subfolders(folder))
    if not names:
        raise DataError(f"{folder} has no classes: it must hold one sub-folder of images for each class")
    return names


def _pool(folder: Path, class_names: tuple[str, ...], skip_broken: bool, misses_classes: bool = False) -> FilePool:
    """misses_classes: a class without images is noted; otherwise splitting will refuse it."""
    loose = images_directly_in(folder)
    _check_known(folder, class_names)
    paths: list[Path] = []
    labels: list[int] = []
    unused = [(NO_CLASS, LeftOut(str(path), "not in the folder of a class")) for path in loose]
    for label, name in enumerate(class_names):
        files, others = files_in(folder / name)
        paths += files
        labels += [label] * len(files)
        unused += [(label, item) for item in others]
        if misses_classes and not files:
            unused.append((label, LeftOut(str(folder / name), "no image of this class")))
    if not paths:
        found = endings_of(item for _, item in unused)
        raise DataError(
            f"{folder} holds no images that can be read"
            + (f", but {found}" if found else "")
            + "; use .png, .jpg, .tif or another ending of an image"
        )
    return FilePool(folder, tuple(paths), np.array(labels), skip_broken, tuple(unused))


def _check_known(folder: Path, class_names: tuple[str, ...]) -> None:
    """DataError for a split that has a class that the training images do not have."""
    unknown = [path.name for path in subfolders(folder) if path.name not in class_names]
    if unknown:
        like = differs_in_case_only(unknown[0], class_names)
        hint = "" if like is None else f"; they have {like!r}, written otherwise (case, accents): rename one of the two"
        raise DataError(f"{folder} has the class {unknown[0]!r}, which the training images do not have{hint}")


def try_to_read(path: Path, image_size: int, levels: Levels | None) -> Tensor | str:
    """read_image, or the reason why it cannot."""
    try:
        return read_image(path, image_size, levels)
    except DECODE_ERRORS as error:
        return str(error).splitlines()[0] if str(error) else type(error).__name__


def broken_image(path: Path, reason: str) -> DataError:
    return DataError(f"cannot read the image {path} ({reason}); mend or remove it, or use --skip-broken")


def _read_in_order(paths: list[Path], image_size: int, levels: Levels | None) -> Generator[Tensor | str]:
    """The images in the order of the paths, decoded by several threads; a file that fails gives its reason."""
    # Chunks keep a Ctrl-C or a broken image from waiting for all files.
    chunk = 64 * N_READERS
    with ThreadPoolExecutor(N_READERS) as readers:
        for start in range(0, len(paths), chunk):
            yield from readers.map(
                partial(try_to_read, image_size=image_size, levels=levels), paths[start : start + chunk]
            )
