"""Settings of a policy evaluation, in layers that override the ones before: defaults,
search, preset, arguments.
"""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Self

import pydantic

from hba.config.presets import DEFAULT_EVALUATIONS, EVALUATION_PRESETS, find_preset
from hba.config.training import (
    OF_OPTIMIZER,
    PLATEAU,
    SGD,
    SGDS,
    NotNegative,
    TrainingConfig,
    source_of_weights,
)
from hba.data.arrays import DATASET_NAMES
from hba.data.config import COLUMN_SETTINGS, Seed, Size, format_of, resolved_data
from hba.errors import SettingsError
from hba.preprocessing import Baseline
from hba.utils.settings import DefaultText

Values = Mapping[str, Any]
OF_WEIGHTS = ("pretrained", "freeze", "standardize_by")
_OF_TRAINING = (
    "model",
    "epochs",
    "batch_size",
    "learning_rate_schedule",
    "learning_rate_warm_up_epochs",
    "optimizer",
)
_OF_IMAGES = ("image_size", "split_seed", "data_root", "skip_broken")
_OF_THESE_IMAGES = ("data", "masks", "mask_colors", "group", "classes", "levels")
_OF_LABELS = frozenset({"target", "label_column", "label_separator"})
_OF_BASELINE = (
    "baseline",
    "baseline_like",
    *(field.name for field in dataclasses.fields(Baseline)),
)
_IN_PIXELS = ("crop_padding", "cutout_size")
INHERITED = (
    *_OF_TRAINING,
    *OF_OPTIMIZER,
    *OF_WEIGHTS,
    *_OF_IMAGES,
    *_OF_THESE_IMAGES,
    *COLUMN_SETTINGS,
    *_OF_BASELINE,
)
"""Settings that are by default those of the search."""


class EvaluationConfig(TrainingConfig):
    """Settings of a policy evaluation. It trains on all images except the test split,
    or on train_size of them.
    """

    seeds: Size = 3
    """Trainings per schedule, each with its own seed."""
    first_seed: Seed = 0
    """Seed of the first training; the others follow. A second evaluation needs seeds
    whose errors nobody has seen.
    """
    with_val: bool = False
    """Also train on the data's own validation split, as `hba auto` does."""
    spread: Annotated[NotNegative | None, DefaultText("each schedule's own")] = None
    """Standard deviation of the logits around a schedule's values, from which each
    image draws; 0 disables it. It applies to magnitudes and probabilities, or to
    magnitudes alone if a schedule varies only these.
    """

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        if self.learning_rate_schedule == PLATEAU:
            raise SettingsError(
                f"learning_rate_schedule {PLATEAU} is for searches only; choose cosine,"
                " for example"
            )
        return self

    @property
    def training_seeds(self) -> range:
        """One for each training of a row."""
        return range(self.first_seed, self.first_seed + self.seeds)

    @classmethod
    def like_search(
        cls,
        searched: Values,
        settings: Values,
        preset: str | None = None,
        *,
        has_own_network: bool = False,
    ) -> Self:
        """The settings of the search that made a schedule, if they apply.

        They are overridden by the preset, or without one, by Table 11 for a dataset of
        the paper, and then by `settings`.

        Args:
            searched: Settings of the search.
            settings: Settings of the evaluation.
            preset: Name of a preset.
            has_own_network: Whether a network is given instead of `model`.

        Raises:
            SettingsError: For settings that an evaluation lacks, and if a network is
                missing.
        """
        resolved = resolved_data(settings)
        if "val_size" in resolved:
            raise SettingsError("an evaluation has no validation split; omit val_size")
        if (
            not (preset or has_own_network or "model" in resolved)
            and searched.get("model", "") is None
        ):
            raise SettingsError(
                "the schedule was searched with a network of your own; choose a model,"
                " or give network"
            )
        default = (
            find_preset(preset, EVALUATION_PRESETS)["data"]
            if preset
            else searched.get("data", "digits")
        )
        data = resolved.get("data") or default
        earlier_values = inherited(
            searched,
            resolved,
            data,
            has_preset=preset is not None,
            has_own_network=has_own_network,
        )
        combined = {**earlier_values, **resolved}
        if preset is not None:
            earlier_values |= values_of(preset, EVALUATION_PRESETS, data, resolved)
        elif (
            combined.get("optimizer", SGD) == SGD
            and source_of_weights(combined.get("pretrained")) is None
        ):
            # The network is the one of the search.
            of_paper = EVALUATION_PRESETS.get(DEFAULT_EVALUATIONS.get(data, ""), {})
            earlier_values |= {
                name: value
                for name, value in of_paper.items()
                if name not in ("data", "model")
            }
        return cls.make({**earlier_values, **resolved})


def inherited(
    earlier: Values,
    settings: Values,
    data: str,
    *,
    has_preset: bool = False,
    has_own_network: bool = False,
) -> dict[str, Any]:
    """The settings of an earlier run that apply to another run.

    Learning rate and weight decay belong to the optimizer, pretrained weights to the
    network: if another one is given, they have its defaults. A preset trains with SGD,
    from fresh weights, and replaces the baseline augmentation.

    Settings of images do not apply to another dataset. A folder may have moved, so
    other data of your own keep them, except for classes, levels, and columns if the
    format has none. Sizes in pixels scale with the image size.

    Args:
        earlier: Settings of the earlier run.
        settings: Settings given for the other run.
        data: The data of the other run.
        has_preset: Whether the other run has a preset.
        has_own_network: Whether a network is given instead of `model`.

    Returns:
        The settings that apply, in addition to the given ones.
    """
    optimizer = earlier.get("optimizer", SGD)
    model = earlier.get("model")
    chosen = settings.get("optimizer", SGD if has_preset else optimizer)
    has_same_model = (
        not (has_own_network or has_preset) and settings.get("model", model) == model
    )
    has_weights = (
        source_of_weights(settings.get("pretrained", earlier.get("pretrained")))
        is not None
    )
    names = [
        *(() if has_preset else _OF_TRAINING),
        *(
            OF_OPTIMIZER
            if chosen == optimizer or (chosen in SGDS and optimizer in SGDS)
            else ()
        ),
        *(OF_WEIGHTS if has_same_model and has_weights else ()),
    ]
    before = earlier.get("data", "digits")
    if data == before or not {data, before} & set(DATASET_NAMES):
        has_columns = data not in DATASET_NAMES and format_of(data) in (
            "table",
            "saved",
        )
        has_baseline = (
            has_preset or settings.get("baseline") or settings.get("baseline_like")
        )
        names += [
            *_OF_IMAGES,
            *(_OF_THESE_IMAGES if data == before else ()),
            *(COLUMN_SETTINGS if has_columns else ()),
            *(() if has_baseline else _OF_BASELINE),
        ]
    if not _OF_LABELS.isdisjoint(settings):
        # They exclude each other.
        names = [name for name in names if name not in _OF_LABELS]
    values = {name: earlier[name] for name in names if name in earlier}
    if has_own_network or model is None:
        # The model of a run with a network of the user's own is None.
        values.pop("model", None)
    size = values.get("image_size")
    given_size = settings.get("image_size")
    if isinstance(size, int) and isinstance(given_size, int):
        values |= {
            name: round(values[name] * (given_size / size))
            for name in _IN_PIXELS
            if values.get(name)
        }
    return values


def of_earlier_run(
    earlier: Values, settings: Values, *, has_own_network: bool = False
) -> dict[str, Any]:
    """The settings of an earlier run for a new one: all but the device that apply.

    Args:
        earlier: Settings of the earlier run.
        settings: Settings given for the new run, as resolved_data returns them.
        has_own_network: Whether a network is given instead of `model`.
    """
    data = settings.get("data") or earlier.get("data", "digits")
    applicable = inherited(earlier, settings, data, has_own_network=has_own_network)
    excluded = (
        "device",
        *INHERITED,
        *(() if "split_seed" in applicable else ("train_size", "val_size")),
    )
    return {
        **{name: value for name, value in earlier.items() if name not in excluded},
        **applicable,
    }


def values_of(
    preset: str, presets: Mapping[str, Values], data: Any, settings: Values
) -> dict[str, Any]:
    """The values of a preset for these data.

    Your own data have the baseline augmentation of the preset's dataset, unless another
    is given, but not its list of classes. Values that suit SGD only are omitted with
    another optimizer.

    Args:
        preset: Name of the preset.
        presets: The presets to choose from.
        data: The data.
        settings: Settings given by the user.
    """
    values = dict(find_preset(preset, presets))
    if settings.get("optimizer", SGD) not in SGDS:
        values = {
            name: value for name, value in values.items() if name not in OF_OPTIMIZER
        }
    if data != values["data"]:
        values.pop("classes", None)
    if data in DATASET_NAMES or settings.get("baseline"):
        return values
    return {**values, "baseline_like": values["data"]}
