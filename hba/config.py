"""Settings of the two stages, checked when they are made. Names are the same in Python, in config.json and, with
dashes, on the command line.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import torch
from pydantic import AfterValidator, Field

from hba.data.baseline import BASELINES, Baseline
from hba.data.config import DataConfig, Seed, Size
from hba.errors import SettingsError
from hba.hypernet.sharing import SHARING
from hba.models import find_model
from hba.presets import DEFAULT_PRESETS, find_preset


def _known_model(name: str) -> str:
    find_model(name)
    return name


def _known_sharing(name: str) -> str:
    if name not in SHARING:
        raise SettingsError(f"unknown sharing; known: {', '.join(SHARING)}")
    return name


def _known_device(name: str) -> str:
    find_device(name)
    return name


Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
ModelName = Annotated[str, AfterValidator(_known_model)]


class _TrainingConfig(DataConfig):
    """What search and evaluation share. flip, crop_padding, cutout_size: None for the dataset's baseline."""

    model: ModelName = "wrn-16-2"
    epochs: Size = 200
    batch_size: Size = 128
    learning_rate: Positive = 0.05
    weight_decay: NotNegative = 0.005
    flip: bool | None = None
    crop_padding: Annotated[int, Field(ge=0)] | None = None
    cutout_size: Annotated[int, Field(ge=0)] | None = None
    device: Annotated[str, AfterValidator(_known_device)] = "auto"

    def baseline(self) -> Baseline:
        """The dataset's baseline augmentation, with what is set here in its place."""
        own = BASELINES.get(self.data, Baseline())
        return Baseline(
            own.flip if self.flip is None else self.flip,
            own.crop_padding if self.crop_padding is None else self.crop_padding,
            own.cutout_size if self.cutout_size is None else self.cutout_size,
        )


class SearchConfig(_TrainingConfig):
    """A policy search; symbols as in the paper's Algorithm 2.

    epochs: passes over the training images. learning_rate: alpha, of the hypernetwork. lambda_learning_rate: alpha',
    of the hyperparameters. train_steps: T_train. val_steps: T_val; 0 switches the search off. sigma: of the noise on
    lambda, in logits. calibrate: divide the validation logits of a lambda step by the temperature that suits them
    best. validate_every: epochs between two measurements on the whole validation set.
    """

    sharing: Annotated[str, AfterValidator(_known_sharing)] = "first-bn"
    lambda_learning_rate: Positive = 0.03
    train_steps: Size = 2
    val_steps: Annotated[int, Field(ge=0)] = 1
    sigma: NotNegative = 1.0
    calibrate: bool = False
    validate_every: Size = 10
    seed: Seed = 0

    @classmethod
    def from_preset(cls, settings: Mapping[str, Any], preset: str | None = None) -> "SearchConfig":
        """The preset's values, which settings override. None takes the preset of the dataset, if it has one."""
        data = settings.get("data") or (find_preset(preset)["data"] if preset else "digits")
        preset = preset or DEFAULT_PRESETS.get(data)
        return cls.make({**(find_preset(preset) if preset else {}), "data": data, **settings})


class EvaluationConfig(_TrainingConfig):
    """A policy evaluation. train_size: of the images that are not test, None for all. seeds: 0 up to seeds - 1."""

    seeds: Size = 3


def find_device(name: str) -> torch.device:
    """The device of that name; `auto` is a CUDA GPU where there is one. SettingsError where there is no such device."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise SettingsError(f"device {name!r} cannot be used ({str(error).splitlines()[0]}); try auto or cpu") from None
    return device
