"""What a default stands for, in words, where the value alone does not say it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DefaultText:
    """In the annotation of a setting: `stream: Annotated[bool | None, DefaultText("by size")] = None`.

    Words for the help of the command line, which shows them as `[default: by size]`. A setting in them is written with
    its name in Python.
    """

    words: str
