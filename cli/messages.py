"""The library's messages in the words of the command line: options instead of the names of settings."""

import re
from collections.abc import Iterable

import click

# Not a part of a path, nor of what is quoted.
WORD = r"(?<![\w/.'\"-]){}(?!\.?[\w/'\"-])"
# A name that is also a word means the setting where something is said of it.
SUBJECT = r"(^|: ){}(?= (?:must|has no effect|is missing|and --)|: | '|\[)"
OBJECT = r"(\b(?:give|omit) ){}(?=[,;]|$)"


def in_options(message: str, parameters: Iterable[click.Parameter]) -> str:
    """The message with `--image-size` in the place of `image_size`, and `--epochs must` of `epochs must`."""
    named = {one.name: one for one in parameters if isinstance(one, click.Option) and one.name is not None}
    for name, option in sorted(named.items()):
        if "_" in name:
            # Flags have no value on the command line.
            if option.secondary_opts:
                message = re.sub(WORD.format(name) + "=False", option.secondary_opts[0], message)
            message = re.sub(WORD.format(name) + "(?:=True)?", option.opts[0], message)
    for name, option in sorted(named.items()):
        if "_" not in name:
            message = re.sub(SUBJECT.format(name), rf"\1{option.opts[0]}", message)
            message = re.sub(OBJECT.format(name), rf"\1{option.opts[0]}", message)
    return message
