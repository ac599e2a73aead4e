"""What candidates are tried on, by name: images, and the settings that all candidates share."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from common.tasks import SearchTask
from reproduction.runs import Search
from reproduction.scales import SCALES

from hba.errors import DataError, SettingsError
from hba.policy_search.config import SearchConfig
from quality.candidates import find_candidate
from quality.shift import Shift
from quality.views import View

DIGITS, SMALL_CIFAR = "digits", "cifar10-small"
DATA_FOLDER, CIFAR_FOLDER = "HBA_DATA", "cifar10-jpeg"
"""An environment variable with the folder of data, and the folder of the CIFAR-10 copy in it."""


@dataclass(frozen=True)
class Bed:
    """text: what it is, in one line. data: a name or folder, as for `hba search`; None for the folder of the CIFAR-10
    copy, which find_bed fills in. settings: over those of the preset. view: what happens to its images after they are
    read; None leaves them as they are. planted: further settings for planted problems.
    """

    name: str
    text: str
    preset: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    view: View | None = None
    data: str | None = None
    planted: Mapping[str, Any] = field(default_factory=dict)

    def config(self, name: str, seed: int, **further: Any) -> SearchConfig:
        """Settings of a candidate's search: the preset's, the bed's, further ones and its own, in this order."""
        candidate = find_candidate(name)
        own = candidate.settings
        algorithm = candidate.trial or own["algorithm"]
        settings = {**self.settings, **further, **own, "algorithm": algorithm, "seed": seed, "data": self.data}
        return SearchConfig.from_preset(settings, self.preset).resolved()

    def search(self, name: str, seed: int, work: Path | None = None, **further: Any) -> SearchTask:
        """A candidate's search. Its record has the bed's name, and what the bed does to images beside the settings."""
        of_bed = {} if self.view is None else {"bed": self.name, "images": self.view.as_json()}
        return SearchTask(name, self.name, self.config(name, seed, **further), work, of_bed, view=self.view)


_WITHOUT_CUTOUT = {"learning_rate": 0.1, "weight_decay": 0.0005, "cutout_size": 0}
_CIFAR = {**(SCALES["small"].settings(Search("reduced-cifar10")) or {}), **_WITHOUT_CUTOUT}
_GREY = {**_CIFAR, "flip": False, "crop_padding": 0}
_SOME_TEST_IMAGES = View(test_size=5_000)
_CIFAR_TEXT = "CIFAR-10 (JPEG copy) at 16x16, 1,000 training and 2,000 validation images"
_OF_TEST = "of the test images a fixed 5,000"

BEDS: Mapping[str, Bed] = MappingProxyType(
    {
        bed.name: bed
        for bed in (
            Bed(
                DIGITS,
                "200 training and 500 validation images at 16x16, no baseline augmentation",
                DIGITS,
                data=DIGITS,
                planted={"image_size": 8},
            ),
            Bed(
                "digits-shifted",
                "digits, with a shift of validation and test images",
                DIGITS,
                view=View(shift=Shift()),
                data=DIGITS,
                planted={"image_size": 8},
            ),
            Bed(
                "cifar",
                f"{_CIFAR_TEXT}, baseline of flip and crop; {_OF_TEST}",
                "reduced-cifar10",
                {**_CIFAR, "flip": True, "crop_padding": 2},
                _SOME_TEST_IMAGES,
            ),
            Bed(
                "cifar-shifted",
                "cifar, with a shift of validation and test images",
                "reduced-cifar10",
                {**_CIFAR, "flip": True, "crop_padding": 2},
                replace(_SOME_TEST_IMAGES, shift=Shift()),
            ),
            Bed(
                "cifar-grey",
                "cifar in grey levels, no baseline augmentation",
                "reduced-cifar10",
                _GREY,
                replace(_SOME_TEST_IMAGES, grey=True),
            ),
            Bed(
                SMALL_CIFAR,
                f"{_CIFAR_TEXT}, baseline of flip, crop and Cutout; as at the scale `small` of the reproduction",
                "reduced-cifar10",
                SCALES["small"].settings(Search("reduced-cifar10")) or {},
            ),
        )
    }
)


def find_bed(name: str, data: str | None = None) -> Bed:
    """The bed of that exact name. data: the folder of the CIFAR-10 copy, for beds of it; without it the one in the
    folder HBA_DATA. Raises SettingsError for an unknown name, DataError for a folder that is missing or not needed.
    """
    bed = _known(name)
    if bed.data is not None:
        if data is not None:
            raise DataError(f"the bed {name} has images of its own; omit --data {data}")
        return bed
    if data is None and not os.environ.get(DATA_FOLDER):
        raise DataError(f"the bed {name} needs the folder of its images: give --data DIR, or set {DATA_FOLDER}")
    folder = Path(os.environ[DATA_FOLDER], CIFAR_FOLDER) if data is None else Path(data)
    if not folder.is_dir():
        raise DataError(f"no such folder of images: {folder}; the bed {name} needs one with train and test in it")
    return replace(bed, data=str(folder))


def needs_folder(name: str) -> bool:
    """Whether the images of a bed lie in a folder that has to be found; SettingsError for an unknown name."""
    return _known(name).data is None


def _known(name: str) -> Bed:
    if name not in BEDS:
        raise SettingsError(f"unknown bed {name!r}; known: {', '.join(BEDS)}")
    return BEDS[name]
