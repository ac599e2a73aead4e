"""Kinds of settings that several classes of them have."""

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from hba.data.builtin import DATASET_NAMES
from hba.errors import SettingsError
from hba.hypernet.sharing import SHARING
from hba.models import find_model
from hba.models.freezing import ALL_BUT_HEAD, NOTHING
from hba.models.pretrained import TIMM
from hba.utils.devices import check_device_name
from hba.utils.settings import color
from hba.utils.text import unknown


def _known_model(name: str) -> str:
    # Whether a tag of weights may stand there is for the settings to say, which know more than one field.
    find_model(name, may_have_tag=True)
    return name


def source_of_weights(given: Any) -> Any:
    """True for timm's and False for none, as in Python; files by absolute path, which are found from anywhere."""
    if isinstance(given, bool):
        given = TIMM if given else None
    if given in (None, "none", TIMM):
        return None if given == "none" else given
    return str(Path(given).resolve()) if isinstance(given, str | Path) else given


def frozen_part(given: Any) -> Any:
    """A number may be given as one."""
    text = str(given) if isinstance(given, int) and not isinstance(given, bool) else given
    if isinstance(text, str) and (text in (NOTHING, ALL_BUT_HEAD) or re.fullmatch("[1-9][0-9]*", text)):
        return text
    raise SettingsError(f"must be {NOTHING}, {ALL_BUT_HEAD}, or a number of groups of layers from 1 on")


def _known_dataset(name: str) -> str:
    if name not in DATASET_NAMES:
        raise SettingsError(unknown("dataset", name, DATASET_NAMES))
    return name


def _known_sharing(name: str) -> str:
    if name not in SHARING:
        raise SettingsError(unknown("sharing", name, SHARING))
    return name


def _known_device(name: str) -> str:
    # It may be one of another machine, which computes.
    check_device_name(name)
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
