"""What an evaluation takes over from the search of its schedule, and what goes before it."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from hba.config.presets import EVALUATION_PRESETS, EVALUATION_SETTINGS, find_preset
from hba.data.config import resolved_data
from hba.data.named import DATASET_NAMES
from hba.errors import SettingsError
from hba.preprocessing.baseline import Baseline

_OF_TRAINING = ("model", "epochs", "batch_size", "learning_rate", "learning_rate_schedule", "weight_decay")
_OF_IMAGES = ("image_size", "split_seed", "data_root", "skip_broken")
_OF_THESE_IMAGES = ("classes", "levels")
_OF_BASELINE = ("baseline", "baseline_like", *(field.name for field in dataclasses.fields(Baseline)))
_IN_PIXELS = ("crop_padding", "cutout_size")
INHERITED = (*_OF_TRAINING, *_OF_IMAGES, *_OF_THESE_IMAGES, *_OF_BASELINE)
"""Settings that an evaluation takes from the search of its schedule unless it is told otherwise."""


@dataclasses.dataclass(frozen=True)
class Layers:
    """Where the settings of an evaluation come from: later ones go before earlier ones."""

    data: str
    inherited: Mapping[str, Any]
    preset: Mapping[str, Any]
    given: Mapping[str, Any]

    @staticmethod
    def of(searched: Mapping[str, Any], settings: Mapping[str, Any], preset: str | None) -> "Layers":
        given = resolved_data(settings)
        if "val_size" in given:
            raise SettingsError("an evaluation has no validation split; omit val_size")
        searched_on = searched.get("data", "digits")
        data = given.get("data") or (find_preset(preset, EVALUATION_PRESETS)["data"] if preset else searched_on)
        if not preset and "model" not in given and searched.get("model", "") is None:
            raise SettingsError("the schedule was searched with a network of your own; choose a model to evaluate with")
        kept = _kept(data, searched_on, given, preset)
        inherited = {name: searched[name] for name in kept if name in searched}
        if "image_size" in inherited and isinstance(given.get("image_size"), int):
            factor = given["image_size"] / inherited["image_size"]
            inherited |= {name: round(inherited[name] * factor) for name in _IN_PIXELS if inherited.get(name)}
        table_11 = EVALUATION_SETTINGS.get(data, {})
        between = values_of(preset, EVALUATION_PRESETS, data, given) if preset else table_11
        return Layers(data, inherited, between, given)


def _kept(data: str, searched_on: str, given: Mapping[str, Any], preset: str | None) -> tuple[str, ...]:
    """The names of what an evaluation takes from a search.

    A folder may have moved since; what it is split and resized by must then stay the same. A list of classes is for
    one folder: by numbers, it would choose others in another one. So is the scale of deep images.
    """
    if data != searched_on and {data, searched_on} & set(DATASET_NAMES):
        return _OF_TRAINING
    of_images = (*_OF_IMAGES, *(_OF_THESE_IMAGES if data == searched_on else ()))
    has_baseline = preset or given.get("baseline") or given.get("baseline_like")
    return (*_OF_TRAINING, *of_images, *(() if has_baseline else _OF_BASELINE))


def values_of(
    preset: str, presets: Mapping[str, Mapping[str, Any]], data: Any, given: Mapping[str, Any]
) -> dict[str, Any]:
    """A preset's values. On a folder, the baseline augmentation is still the one of the preset's dataset, whose list of
    classes it cannot have, unless another is given.
    """
    values = dict(find_preset(preset, presets))
    if data != values["data"]:
        values.pop("classes", None)
    if data in DATASET_NAMES or given.get("baseline"):
        return values
    return {**values, "baseline_like": values["data"]}
