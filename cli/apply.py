"""hba apply: look at what a policy does to images."""

from collections.abc import Sequence
from pathlib import Path

import click
from torch import Tensor

import hba
from hba.data.config import FOLDER_IMAGE_SIZE, DataConfig
from hba.data.folder import files_in
from hba.data.reading import read_image
from hba.errors import DataError, SettingsError
from hba.report.findings import reach_line, shares_line
from hba.schedule.pictures import draw_augmented, is_seen
from hba.schedule.summary import not_on_pixels
from hba.utils.text import first_of

from .options import file_option, picture, schedule_argument
from .terminal import operations_file_option, say

N_OF_FOLDER = 6
"""Images of a folder that are used."""


@click.command()
@schedule_argument
@click.argument("images", nargs=-1, required=True, type=click.Path(path_type=Path))
@operations_file_option
@file_option("--out", callback=picture, required=True, help="The PNG file to write.")
@click.option("--epoch", type=int, help="Which epoch's policy, counted from 1. [default: the last]")
@click.option("--copies", type=click.IntRange(1, 32), default=8, show_default=True, help="Augmented copies per image.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Seed of the draws.")
@click.option("--image-size", type=click.IntRange(8, 1024), help="Side in pixels. [default: as in the search]")
def apply(
    schedule: str,
    images: tuple[Path, ...],
    out: Path,
    epoch: int | None,
    copies: int,
    seed: int,
    image_size: int | None,
) -> None:
    """Write a grid of augmented copies of IMAGES.

    Beside each copy stand the operations and the regularizers on pixels that made it. Of a folder, some of its images
    are used.
    """
    loaded = hba.load_policy(schedule)
    epoch = epoch_of(loaded, loaded.epochs if epoch is None else epoch)
    hidden = not_on_pixels(loaded.space)
    if not is_seen(loaded.space):
        raise SettingsError(f"the schedule changes no pixels, only {first_of(hidden)}; hba show prints their values")
    draw_augmented(loaded, read_some(images, loaded, image_size), out, epoch=epoch, n_copies=copies, seed=seed)
    if loaded.space.operations:
        say(reach_line(loaded, epoch))
        say(shares_line(loaded, epoch))
    if hidden:
        say(f"Not shown, because they do not act on pixels: {', '.join(hidden)}")
    say(f"Picture: {out}")


def epoch_of(schedule: hba.Schedule, epoch: int) -> int:
    """The epoch counted from 0, of one counted from 1; SettingsError where the schedule has no such epoch."""
    if not 1 <= epoch <= schedule.epochs:
        raise SettingsError(f"--epoch must lie in [1, {schedule.epochs}], got {epoch}")
    return epoch - 1


def read_some(given: Sequence[Path], schedule: hba.Schedule, image_size: int | None = None) -> list[Tensor]:
    """The images, and some of each folder, as uint8 (3, size, size), by default of the size that was searched."""
    size, settings = schedule.provenance.get("image_size"), schedule.provenance.get("settings")
    size = image_size or (size if isinstance(size, int) else FOLDER_IMAGE_SIZE)
    files = [path for one in given for path in (_some_of(one) if one.is_dir() else [one])]
    levels = DataConfig.make({"levels": settings.get("levels")}).levels if isinstance(settings, dict) else None
    pixels = []
    for path in files:
        try:
            pixels.append(read_image(path, size, levels))
        except DataError as error:
            raise DataError(f"cannot read the image {path}: {error}; name another") from None
    return pixels


def _some_of(folder: Path) -> list[Path]:
    """Images of a folder, evenly spread in the order of their paths."""
    found, _ = files_in(folder)
    if not found:
        raise DataError(f"the folder {folder} holds no images; name image files, or a folder with some")
    if len(found) <= N_OF_FOLDER:
        return found
    say(f"{N_OF_FOLDER} of the {len(found):,} images in {folder}")
    return [found[number * (len(found) - 1) // (N_OF_FOLDER - 1)] for number in range(N_OF_FOLDER)]
