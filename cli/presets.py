"""hba presets: settings by name."""

import shlex
from collections.abc import Mapping
from typing import Any

import click

from hba.config.presets import EVALUATION_PRESETS, SEARCH_PRESETS

from .terminal import say

COMMANDS = {"search": SEARCH_PRESETS, "evaluate": EVALUATION_PRESETS}
TITLES = {"search": "Policy search (paper, Table 10):", "evaluate": "Policy evaluation (paper, Table 11):"}


@click.command()
def presets() -> None:
    """Print what --preset stands for in `hba search` and in `hba evaluate`.

    Every option that follows overrides the preset's. On DATA of your own, the baseline augmentation stays that of the
    preset's dataset. What a preset does not set is the default of `hba search`; with --paper it is as in the paper.
    """
    for command, table in COMMANDS.items():
        say(TITLES[command])
        for name, values in table.items():
            say(f"  --preset {name}\n      {_as_options(values)}")


def _as_options(settings: Mapping[str, Any]) -> str:
    """The settings as they are typed, the data first; a setting that is None is omitted."""
    options = [
        f"--{name.replace('_', '-')} {shlex.quote(f'{value:g}' if isinstance(value, float) else str(value))}"
        for name, value in settings.items()
        if name != "data" and value is not None
    ]
    return " ".join([str(settings["data"]), *options])
