"""Images that a person names on the command line: files, or some of those in a folder."""

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

import hba
from hba.data.config import FOLDER_IMAGE_SIZE, DataConfig
from hba.data.folder import read_image
from hba.data.levels import DECODE_ERRORS, Levels, levels_of_data
from hba.data.listing import files_in
from hba.errors import DataError
from hba.utils.files import reason_of

from .terminal import say

N_OF_FOLDER = 6
"""Images of a folder that are taken."""


def read_some(given: Sequence[Path], schedule: hba.Schedule, image_size: int | None) -> list[Tensor]:
    """Images as uint8 (3, size, size), as a search reads them. image_size: None is as in the search."""
    searched_size = schedule.provenance.get("image_size")
    size = image_size or (searched_size if isinstance(searched_size, int) else FOLDER_IMAGE_SIZE)
    files = [path for one in given for path in _files(one)]
    levels = _levels(schedule, files)
    pixels = []
    for path in files:
        try:
            pixels.append(read_image(path, size, levels))
        except DECODE_ERRORS as error:
            raise DataError(f"cannot read the image {path}: {reason_of(error)}; name another") from None
    return pixels


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
