"""The library's messages in the words of the command line: options instead of the names of settings."""

import re
from collections.abc import Iterable

import click

# Not a part of a path, nor of what is quoted.
WORD = r"(?<![\w/.'\"-]){}(?!\.?[\w/'\"-])"
# A name that is also a word means the setting where something is said of it.
SUBJECT = r"(^|: ){}(?= (?:must|has no effect|is missing|and --)|: | '|\[)"


def in_options(message: str, parameters: Iterable[click.Parameter]) -> str:
    """The message with `--image-size` in the place of `image_size`, and `--epochs must` of `epochs must`."""
    options = {
        parameter.name: parameter.opts[0]
        for parameter in parameters
        if isinstance(parameter, click.Option) and parameter.name is not None
    }
    for name, option in sorted(options.items()):
        if "_" in name:
            # A flag has no value on the command line.
            message = re.sub(WORD.format(name) + "(?:=True)?", option, message)
    for name, option in sorted(options.items()):
        if "_" not in name:
            message = re.sub(SUBJECT.format(name), rf"\1{option}", message)
    return message
