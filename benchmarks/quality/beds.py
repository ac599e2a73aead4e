"""What candidates are tried on: images, and the settings that all candidates share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common.images import Place
from reproduction.runs import Search
from reproduction.scales import SCALES

from hba.errors import DataError
from hba.policy_search.config import SearchConfig
from quality.candidates import find_candidate

DIGITS = "digits"
FOLDER_PRESET = "reduced-cifar10"


@dataclass(frozen=True)
class Bed:
    """Images by place and name, and a preset with changes to it. planted: further ones for planted problems."""

    place: Place
    preset: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    planted: Mapping[str, Any] = field(default_factory=dict)

    def config(self, name: str, seed: int, **further: Any) -> SearchConfig:
        """Settings of a candidate's search: the preset's, the bed's, further ones and its own, in this order."""
        alike = {"probes": 0, **self.settings, **further}
        settings = {**alike, **find_candidate(name).settings, "seed": seed, "data": self.place.data}
        return SearchConfig.from_preset(settings, self.preset).resolved()


def find_bed(data: str, label: str | None = None) -> Bed:
    """digits, or a folder of images like CIFAR-10, small enough for CPUs: as at the scale `small` of the reproduction.

    label: what records call the folder; its own name.
    """
    if data == DIGITS:
        return Bed(Place(DIGITS, DIGITS), DIGITS, planted={"image_size": 8})
    if not Path(data).is_dir():
        raise DataError(f"no such folder of images: {data}; or {DIGITS}")
    settings = SCALES["small"].settings(Search(FOLDER_PRESET)) or {}
    return Bed(Place(data, label or Path(data).resolve().name), FOLDER_PRESET, settings)
