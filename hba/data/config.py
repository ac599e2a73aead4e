"""Settings that say which images are used and how they are split."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

import pydantic
from pydantic import Field

from hba.errors import SettingsError
from hba.validation import first_problem

Size = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class DataConfig(pydantic.BaseModel):
    """Which images, and how they are split.

    data: a dataset's name or a folder. image_size: pixels, None for the dataset's own. train_size, val_size: numbers
    of images, None for all and for a fifth. data_root: where torchvision's files are.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    data: str = "digits"
    image_size: Annotated[int, Field(ge=8, le=1024)] | None = None
    train_size: Size | None = None
    val_size: Size | None = None
    split_seed: Seed = 0
    data_root: str = "data"
    download: bool = False
    skip_broken: bool = False

    @classmethod
    def make(cls, settings: Mapping[str, Any]) -> Self:
        """Check the settings; SettingsError says in one line what is wrong."""
        try:
            return cls(**settings)
        except pydantic.ValidationError as error:
            raise SettingsError(first_problem(error)) from None
