"""Where the settings of an evaluation come from: named layers, of which a later one replaces what is in earlier ones.

The layers are, in their order: the defaults, the training of the schedule's search, its images, the preset, and what
is given. Each is made by one function; `merged` puts them together.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from hba.config.fields import source_of_weights
from hba.config.presets import EVALUATION_PRESETS, EVALUATION_SETTINGS, find_preset
from hba.config.training import OF_OPTIMIZER, SGD, SGDS, defaults_with
from hba.data.builtin import DATASET_NAMES
from hba.data.config import format_of, has_columns, resolved_data
from hba.errors import SettingsError
from hba.preprocessing.baseline import Baseline

DEFAULT, OF_SEARCH, OF_SEARCHED_IMAGES, GIVEN = "default", "search", "images of the search", "given"
"""Names of layers. The preset's layer is called by the preset."""

_OF_TRAINING = ("model", "epochs", "batch_size", "learning_rate_schedule", "learning_rate_warm_up_epochs", "optimizer")
OF_WEIGHTS = ("pretrained", "freeze", "standardize_by")
"""Settings that say what a network begins with."""
_OF_IMAGES = ("image_size", "split_seed", "data_root", "skip_broken")
_OF_THESE_IMAGES = ("data", "classes", "levels")
_OF_COLUMNS = ("path_column", "label_column", "split_column")
_OF_TABLES = ("label_separator",)
_OF_BASELINE = ("baseline", "baseline_like", *(field.name for field in dataclasses.fields(Baseline)))
_IN_PIXELS = ("crop_padding", "cutout_size")
INHERITED = (
    *_OF_TRAINING,
    *OF_OPTIMIZER,
    *OF_WEIGHTS,
    *_OF_IMAGES,
    *_OF_THESE_IMAGES,
    *_OF_COLUMNS,
    *_OF_TABLES,
    *_OF_BASELINE,
)
"""Settings that an evaluation takes from the search of its schedule unless it is told otherwise."""


class Layer(NamedTuple):
    """Settings from one place. name: what a person calls the place."""

    name: str
    settings: Mapping[str, Any]


class Sourced(NamedTuple):
    """A setting's value and the name of the layer that it is from."""

    value: Any
    layer: str


def layers_of(
    defaults: Mapping[str, Any],
    searched: Mapping[str, Any],
    settings: Mapping[str, Any],
    preset: str | None,
    *,
    has_own_network: bool = False,
) -> tuple[Layer, ...]:
    """All layers, the weakest first. searched: settings of the schedule's search, none where nothing is known of it.

    has_own_network: the evaluation is given one, so it needs no model. Raises SettingsError for settings that an
    evaluation cannot have, and where nothing tells the network.
    """
    given = resolved_data(settings)
    if "val_size" in given:
        raise SettingsError("an evaluation has no validation split; omit val_size")
    names_model = preset or has_own_network or "model" in given
    if not names_model and searched.get("model", "") is None:
        raise SettingsError(
            "the schedule was searched with a network of your own: choose a model to evaluate with, or in Python give "
            "the network as network="
        )
    data = _data_of(searched, given, preset)
    training = of_search(searched, given, preset, has_own_network=has_own_network)
    known = {**training.settings, **given}
    is_as_in_the_paper = known.get("optimizer", SGD) == SGD and source_of_weights(known.get("pretrained")) is None
    return (
        Layer(DEFAULT, {**defaults, **defaults_with(known.get("optimizer"))}),
        training,
        of_searched_images(searched, data, given, has_preset=preset is not None),
        of_preset(preset, data, given) if preset or is_as_in_the_paper else Layer("no preset", {}),
        Layer(GIVEN, given),
    )


def merged(layers: Sequence[Layer]) -> dict[str, Sourced]:
    """Each setting as the last layer that has it says."""
    return {name: Sourced(value, layer.name) for layer in layers for name, value in layer.settings.items()}


def of_search(
    searched: Mapping[str, Any],
    given: Mapping[str, Any] = MappingProxyType({}),
    preset: str | None = None,
    *,
    has_own_network: bool = False,
) -> Layer:
    """How the search trained, whatever its images were.

    Learning rate and weight decay go with the optimizer: another kind that is given has its own. Pretrained weights,
    and what goes with them, are for the network of the search: another one, and none that are given, start afresh. A
    preset trains by SGD, from fresh weights.
    """
    optimizer = searched.get("optimizer", SGD)
    goes_on = are_alike(given.get("optimizer", SGD if preset else optimizer), optimizer)
    has_its_network = not (has_own_network or preset) and given.get("model", searched.get("model")) == searched.get(
        "model"
    )
    has_weights = source_of_weights(given.get("pretrained", searched.get("pretrained"))) is not None
    names = [
        *(_OF_TRAINING if not preset else ("epochs", "batch_size", "learning_rate_schedule")),
        *(OF_OPTIMIZER if goes_on else ()),
        *(OF_WEIGHTS if has_its_network and has_weights else ()),
    ]
    known = {name: searched[name] for name in names if name in searched}
    # A search with a network of the user's own has no model to hand on.
    return Layer(OF_SEARCH, {name: value for name, value in known.items() if name != "model" or value is not None})


def are_alike(first: object, second: object) -> bool:
    """Whether what suits one optimizer suits the other."""
    return first == second or (first in SGDS and second in SGDS)


def of_searched_images(
    searched: Mapping[str, Any], data: str, given: Mapping[str, Any], *, has_preset: bool = False
) -> Layer:
    """What belongs to the searched images: how they are split and resized, and the baseline augmentation.

    Nothing on a dataset that was not searched. A folder may have moved since; what it is split and resized by must
    then stay the same. A list of classes is for one folder: by numbers, it would choose others in another one. So is
    the scale of deep images. Names of columns are for data that have some, a separator of labels
    for a table. A preset or a baseline that is given
    replaces the baseline as a whole. Sizes in pixels go with the size of the images.
    """
    searched_on = _searched_on(searched)
    if data != searched_on and {data, searched_on} & set(DATASET_NAMES):
        return Layer(OF_SEARCHED_IMAGES, {})
    has_baseline = has_preset or given.get("baseline") or given.get("baseline_like")
    names = (
        *_OF_IMAGES,
        *(_OF_THESE_IMAGES if data == searched_on else ()),
        *(_OF_COLUMNS if data not in DATASET_NAMES and has_columns(data) else ()),
        *(_OF_TABLES if data not in DATASET_NAMES and format_of(data) == "table" else ()),
        *(() if has_baseline else _OF_BASELINE),
    )
    found = {name: searched[name] for name in names if name in searched}
    size, given_size = found.get("image_size"), given.get("image_size")
    if isinstance(size, int) and isinstance(given_size, int):
        found |= {name: round(found[name] * (given_size / size)) for name in _IN_PIXELS if found.get(name)}
    return Layer(OF_SEARCHED_IMAGES, found)


def of_earlier_run(
    earlier: Mapping[str, Any], given: Mapping[str, Any], *, has_own_network: bool = False
) -> dict[str, Any]:
    """What a new run takes over from the settings of an earlier one of its kind, beside those that are given.

    All but the device, and but what goes with another optimizer, network, baseline or other images that are given, as
    for an evaluation that follows a search. given: with data by absolute path, as resolved_data makes them.
    """
    data = given.get("data") or _searched_on(earlier)
    training = of_search(earlier, given, has_own_network=has_own_network).settings
    images = of_searched_images(earlier, data, given).settings
    others = ("device", *INHERITED, *(() if images else ("train_size", "val_size")))
    taken = {**{name: value for name, value in earlier.items() if name not in others}, **training, **images}
    of_model = ("model", *OF_WEIGHTS) if has_own_network else ()
    return {name: value for name, value in taken.items() if name not in of_model}


def of_preset(preset: str | None, data: str, given: Mapping[str, Any]) -> Layer:
    """The preset, or without one, on a dataset of the paper, its Table 11."""
    if preset is not None:
        return Layer(f"preset {preset}", values_of(preset, EVALUATION_PRESETS, data, given))
    return Layer("the paper's Table 11", EVALUATION_SETTINGS.get(data, {}))


def values_of(
    preset: str, presets: Mapping[str, Mapping[str, Any]], data: Any, given: Mapping[str, Any]
) -> dict[str, Any]:
    """A preset's values. On a folder, the baseline augmentation is still the one of the preset's dataset, whose list of
    classes it cannot have, unless another is given. What suits SGD alone is left out where another optimizer is given.
    """
    values = dict(find_preset(preset, presets))
    if given.get("optimizer", SGD) not in SGDS:
        values = {name: value for name, value in values.items() if name not in OF_OPTIMIZER}
    if data != values["data"]:
        values.pop("classes", None)
    if data in DATASET_NAMES or given.get("baseline"):
        return values
    return {**values, "baseline_like": values["data"]}


def _data_of(searched: Mapping[str, Any], given: Mapping[str, Any], preset: str | None) -> Any:
    """What is evaluated on: what is given, else the preset's, else what was searched."""
    if given.get("data"):
        return given["data"]
    return find_preset(preset, EVALUATION_PRESETS)["data"] if preset else _searched_on(searched)


def _searched_on(searched: Mapping[str, Any]) -> Any:
    return searched.get("data", "digits")
