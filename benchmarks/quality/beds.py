"""The beds by name: images, with the settings that all candidates share on them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from common.options import (
    CIFAR_FOLDER,
    DATA,
    DATA_FOLDER,
    DEVICE,
    DRY_RUN,
    JOBS,
    KEPT_IN,
    with_options,
    work,
)
from common.tasks import SearchTask
from reproduction.runs import Search
from reproduction.scales import SCALES

from hba.errors import DataError
from hba.policy_search.config import SearchConfig
from quality.candidates import CANDIDATES
from quality.views import Shift, View

DIGITS = "digits"
with_options_of_beds = with_options(
    DATA, JOBS, DEVICE, work("runs/quality"), KEPT_IN, DRY_RUN
)


@dataclass(frozen=True)
class Bed:
    """A set of images with settings."""

    name: str
    preset: str | None
    """None for the preset of the data."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that override the preset's."""
    view: View | None = None
    """Changes the images after they are read."""
    data: str | None = None
    """A name or folder, as for `hba search`; None for the folder of the CIFAR-10 copy,
    which find_bed fills in.
    """
    planted: Mapping[str, Any] = field(default_factory=dict)
    """Further settings for planted problems."""

    def search(
        self, name: str, seed: int, work: Path | None = None, **settings: Any
    ) -> SearchTask:
        """Return the search of a candidate.

        Args:
            name: The name of the candidate.
            seed: The seed of the search.
            work: The folder of run folders; without it, only the record is kept.
            **settings: Settings that override those of the preset and the bed.
        """
        return self.search_with(name, seed, work, **{**settings, **CANDIDATES[name]})

    def search_with(
        self, name: str, seed: int, work: Path | None = None, **settings: Any
    ) -> SearchTask:
        """A search with these settings over the bed's. The record has the bed and its
        changes to the images.
        """
        merged = {**self.settings, **settings, "seed": seed, "data": self.data}
        config = SearchConfig.from_preset(merged, self.preset).resolved()
        bed_entry = (
            {}
            if self.view is None
            else {"bed": self.name, "images": self.view.as_json()}
        )
        return SearchTask(name, self.name, config, work, bed_entry, view=self.view)


_SMALL_CIFAR = SCALES["small"].settings(Search("reduced-cifar10")) or {}
_CIFAR = {
    **_SMALL_CIFAR,
    "learning_rate": 0.1,
    "weight_decay": 0.0005,
    "cutout_size": 0,
}
_COLOUR = {**_CIFAR, "flip": True, "crop_padding": 2}
_GREY = {**_CIFAR, "flip": False, "crop_padding": 0}
_SOME_TEST_IMAGES = View(test_size=5_000)
_DIGITS = Bed(DIGITS, DIGITS, data=DIGITS, planted={"image_size": 8})
_REDUCED_CIFAR = Bed("cifar", "reduced-cifar10", _COLOUR, _SOME_TEST_IMAGES)
_BEDS = (
    _DIGITS,
    replace(_DIGITS, name="digits-shifted", view=View(shift=Shift())),
    _REDUCED_CIFAR,
    replace(
        _REDUCED_CIFAR,
        name="cifar-grey",
        settings=_GREY,
        view=replace(_SOME_TEST_IMAGES, grey=True),
    ),
)
BEDS: Mapping[str, Bed] = MappingProxyType({bed.name: bed for bed in _BEDS})


def find_bed(name: str, data: str | None = None) -> Bed:
    """Return the bed with a name.

    Args:
        name: The name of the bed.
        data: The folder of the CIFAR-10 copy, for beds with its images; by default the
            one in the folder HBA_DATA.

    Raises:
        DataError: If the folder is missing or not needed.
    """
    bed = BEDS[name]
    if bed.data is not None:
        if data is not None:
            raise DataError(f"the bed {name} has images of its own; omit --data {data}")
        return bed
    if data is None and not os.environ.get(DATA_FOLDER):
        raise DataError(
            f"the bed {name} needs the folder of its images: give --data DIR, or set"
            f" {DATA_FOLDER}"
        )
    folder = Path(os.environ[DATA_FOLDER], CIFAR_FOLDER) if data is None else Path(data)
    if not folder.is_dir():
        raise DataError(
            f"no such folder of images: {folder}; the bed {name} needs one with train"
            " and test in it"
        )
    return replace(bed, data=str(folder))
