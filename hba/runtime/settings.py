"""What all classes of settings have in common."""

from collections.abc import Mapping
from typing import Any, Self

import pydantic

from hba.errors import SettingsError
from hba.runtime.validation import TEXT_RULE, first_problem, is_text


class Settings(pydantic.BaseModel):
    """Values that are checked when they are made, and never change. The text under a field is also its help."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    def __init__(self, **settings: Any) -> None:
        """Check the settings; SettingsError says in one line what is wrong."""
        try:
            super().__init__(**settings)
        except pydantic.ValidationError as error:
            raise SettingsError(first_problem(error, type(self).model_fields)) from None

    @pydantic.field_validator("*", mode="before")
    @classmethod
    def _text(cls, given: Any) -> Any:
        """Before a setting is looked for on the disk, where other text is refused in words of the system."""
        if isinstance(given, str) and not is_text(given):
            raise SettingsError(f"{TEXT_RULE}, got {given!r}")
        return given

    @classmethod
    def make(cls, settings: Mapping[str, Any]) -> Self:
        """From settings by name."""
        return cls(**settings)

    @classmethod
    def __pydantic_init_subclass__(cls, **arguments: Any) -> None:
        """A field that only gets another default keeps its text."""
        for name, field in cls.model_fields.items():
            for base in cls.__bases__:
                if field.description is None and issubclass(base, Settings) and name in base.model_fields:
                    field.description = base.model_fields[name].description
