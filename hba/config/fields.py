"""Kinds of settings that several classes of them have."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from hba.data.named import DATASET_NAMES
from hba.errors import SettingsError
from hba.hypernet.sharing import SHARING
from hba.models import find_model
from hba.runtime.devices import find_device
from hba.runtime.unknown import unknown
from hba.runtime.validation import color


def _known_model(name: str) -> str:
    find_model(name)
    return name


def _known_dataset(name: str) -> str:
    if name not in DATASET_NAMES:
        raise SettingsError(unknown("dataset", name, DATASET_NAMES))
    return name


def _known_sharing(name: str) -> str:
    if name not in SHARING:
        raise SettingsError(unknown("sharing", name, SHARING))
    return name


def _known_device(name: str) -> str:
    find_device(name)
    return name


Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1)]
Decay = Annotated[float, Field(ge=0, lt=1)]
Color = Annotated[tuple[float, ...], BeforeValidator(color)]
ModelName = Annotated[str, AfterValidator(_known_model)]
DatasetName = Annotated[str, AfterValidator(_known_dataset)]
DeviceName = Annotated[str, AfterValidator(_known_device)]
Sharing = Annotated[str, AfterValidator(_known_sharing)]
