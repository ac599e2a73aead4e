"""hba apply: look at what a policy does to images."""

from collections.abc import Sequence
from pathlib import Path

import click

import hba
from hba.data.config import FOLDER_IMAGE_SIZE, DataConfig
from hba.data.folder import read_image
from hba.data.levels import DECODE_ERRORS, Levels, levels_of_data
from hba.data.listing import files_in
from hba.errors import DataError, SettingsError
from hba.schedule.pictures import draw_augmented

from .completion import SCHEDULE
from .findings import reach_line, shares_line
from .operations_files import operations_file_option
from .terminal import say

N_OF_FOLDER = 6
"""Images of a folder that are shown."""


@click.command()
@click.argument("schedule", shell_complete=SCHEDULE)
@click.argument("images", nargs=-1, required=True, type=click.Path(path_type=Path))
@operations_file_option
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The PNG file to write.")
@click.option("--epoch", type=int, help="Which epoch's policy, counted from 1. [default: the last]")
@click.option("--copies", type=click.IntRange(1, 32), default=8, show_default=True, help="Augmented copies per image.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Decides the draws.")
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

    Beside each copy stand the operations that made it. Of a folder, some of its images are taken.
    """
    loaded = hba.load_policy(schedule)
    epoch = loaded.epochs if epoch is None else epoch
    if not 1 <= epoch <= loaded.epochs:
        raise SettingsError(f"--epoch must lie in [1, {loaded.epochs}], got {epoch}")
    searched_size = loaded.provenance.get("image_size")
    size = image_size or (searched_size if isinstance(searched_size, int) else FOLDER_IMAGE_SIZE)
    files = [path for given in images for path in _files(given)]
    levels = _levels(loaded, files)
    pixels = []
    for path in files:
        try:
            pixels.append(read_image(path, size, levels))
        except DECODE_ERRORS as error:
            raise DataError(f"cannot read the image {path}: {error}") from None
    draw_augmented(loaded, pixels, out, epoch=epoch - 1, n_copies=copies, seed=seed)
    say(reach_line(loaded, epoch - 1))
    say(shares_line(loaded, epoch - 1))
    say(f"Picture: {out}")


def _levels(schedule: hba.Schedule, images: Sequence[Path]) -> Levels | None:
    """What is black and white in images of more than 8 bits: as in the search, else one scale for all these images."""
    searched = schedule.provenance.get("settings")
    levels = DataConfig.make({"levels": searched.get("levels")}).levels if isinstance(searched, dict) else None
    return levels_of_data(images, levels)[0]


def _files(given: Path) -> list[Path]:
    """The file itself; of a folder some of its images, evenly spread over all of them in the order of their paths."""
    if not given.is_dir():
        return [given]
    found, _ = files_in(given)
    if not found:
        raise DataError(f"the folder {given} holds no images; name image files, or a folder that has some")
    if len(found) <= N_OF_FOLDER:
        return found
    say(f"{N_OF_FOLDER} of the {len(found):,} images in {given}")
    return [found[number * (len(found) - 1) // (N_OF_FOLDER - 1)] for number in range(N_OF_FOLDER)]
