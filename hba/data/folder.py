"""Image folders: DIR/<class>/*, or DIR/train/<class>/* with optional DIR/val and DIR/test."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from hba.data.decoding import in_parts, middle, opened, room_for
from hba.data.encoded import ImageFile
from hba.data.images import Source, of_classes
from hba.data.labels import names_of
from hba.data.layout import find_layout, unknown_class, without_class
from hba.data.levels import DECODE_ERRORS, Deep, Levels, deep_files, is_deep, to_8_bits
from hba.data.listing import endings_of, files_in, holds_images, images_directly_in, subfolders
from hba.data.pictures import NO_CLASS, PicturePool, restricted_unused
from hba.data.skipped import NO_IMAGE, SkippedFile
from hba.errors import DataError
from hba.utils.files import reason_of


@dataclass(frozen=True)
class FilePool(PicturePool):
    """A pool of image files. folder: where all of them are.

    class_names: where they are known by class and name wherever they lie, as the files of a table; () where their path
    below the folder tells both.
    """

    folder: Path
    paths: tuple[Path, ...]
    labels: np.ndarray
    skip_broken: bool
    unused: tuple[tuple[int, SkippedFile], ...] = ()
    levels: Levels | None = None
    class_names: tuple[str, ...] = ()

    def restricted(self, keep: Sequence[int]) -> "FilePool":
        chosen, labels = of_classes(self.labels, keep)
        return replace(
            self,
            paths=tuple(self.paths[index] for index in chosen),
            labels=labels,
            unused=restricted_unused(self.unused, keep),
            class_names=tuple(self.class_names[label] for label in keep) if self.class_names else (),
        )

    def picture(self, index: int, image_size: int) -> Tensor | str:
        return try_to_read(self.paths[index], image_size, self.levels)

    def name_of(self, index: int) -> str:
        return str(self.paths[index])

    def deep(self, indices: np.ndarray) -> Generator[Deep]:
        return deep_files([self.paths[index] for index in indices])

    def scaled(self, levels: Levels | None) -> "FilePool":
        return replace(self, levels=levels)

    def known_as(self, index: int) -> str:
        """Class and name, by which a schedule's file knows the image again."""
        path = self.paths[index]
        if self.class_names:
            return f"{names_of(self.labels[index], self.class_names)}/{path.name}"
        return path.relative_to(self.folder).as_posix()


def folder_source(folder: Path, skip_broken: bool = False) -> Source:
    """The folder as a source of images. Reads names only; raises DataError for a folder that cannot be used."""
    if folder.is_file():
        raise DataError(
            f"{folder} is a file; give a folder with one sub-folder of images for each class (unpack an archive), a "
            "table of images and labels (.csv, .parquet), or arrays (.npz)"
        )
    if not folder.is_dir():
        raise DataError(f"no such folder: {folder}")
    layout = find_layout(folder)
    class_names = _class_names(layout.train)
    pool = partial(_pool, class_names=class_names, skip_broken=skip_broken)
    train = pool(layout.train)
    if layout.test is not None and not any(map(holds_images, subfolders(layout.test))):
        # A search, which opens no test image, would not find out. It raises.
        pool(layout.test, misses_classes=True)
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


def read_image(path: ImageFile, image_size: int, levels: Levels | None = None) -> Tensor:
    """One file as uint8 (3, image_size, image_size): upright, RGB, shorter side resized, centre cut out.

    Transparent pixels lie on white, grey and palette images become RGB. levels: those that become 0 and 255 in images
    of more than 8 bits; ValueError for such an image without them.
    """
    with opened(path) as image:
        # Lets a JPEG decoder skip what the small result does not need.
        image.draft("RGB", (2 * image_size, 2 * image_size))
        with room_for(image):
            ImageOps.exif_transpose(image, in_place=True)
            return fitted(image, image_size, levels)


def fitted(image: Image.Image, image_size: int, levels: Levels | None = None) -> Tensor:
    """read_image for an image that stands upright."""
    image = in_parts(middle(image), "RGB", partial(_to_rgb, levels=levels))
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
    unused = [(NO_CLASS, SkippedFile(str(path), "not in the folder of a class")) for path in loose]
    for label, name in enumerate(class_names):
        files, others = files_in(folder / name)
        paths += files
        labels += [label] * len(files)
        unused += [(label, item) for item in others]
        if misses_classes and not files:
            unused.append((label, SkippedFile(str(folder / name), NO_IMAGE)))
    if not paths and loose:
        raise without_class(folder, loose[0])
    if not paths:
        found = endings_of(item for _, item in unused if item.reason != NO_IMAGE)
        raise DataError(
            f"{folder} holds no images that can be read"
            + (f", but {found}" if found else "")
            + "; use .png, .jpg, .tif or another ending of an image"
            + (", or move the folder away" if misses_classes else "")
        )
    return FilePool(folder, tuple(paths), np.array(labels), skip_broken, tuple(unused))


def _check_known(folder: Path, class_names: tuple[str, ...]) -> None:
    """DataError for a split that has a class that the training images do not have."""
    unknown = [path.name for path in subfolders(folder) if path.name not in class_names]
    if unknown:
        raise unknown_class(str(folder), unknown[0], class_names)


def try_to_read(path: ImageFile, image_size: int, levels: Levels | None) -> Tensor | str:
    """read_image, or the reason why it cannot."""
    try:
        return read_image(path, image_size, levels)
    except DECODE_ERRORS as error:
        return reason_of(error)
