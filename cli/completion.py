"""What a shell completes of options and arguments whose values are no fixed choice."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import click
from click.shell_completion import CompletionItem

from hba.config.presets import EVALUATION_PRESETS, SEARCH_PRESETS
from hba.data.classes import shipped_class_lists
from hba.data.named import DATASET_NAMES
from hba.models import MODELS
from hba.models.freezing import ALL_BUT_HEAD, NOTHING
from hba.models.pretrained import TIMM
from hba.operations import OPERATIONS
from hba.schedule.library import policy_names

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
FILES, FOLDERS = "file", "dir"
"""click's kinds of what the shell completes by itself."""


def complete(names: Iterable[str] = (), or_paths: str | None = None) -> Complete:
    """Of names, those that begin as what was typed; besides, where or_paths is FILES or FOLDERS, the shell's own."""

    def completed(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        begun = [CompletionItem(name) for name in names if name.startswith(incomplete)]
        return [*begun, *([CompletionItem(incomplete, type=or_paths)] if or_paths else [])]

    return completed


def complete_words(names: Iterable[str]) -> Complete:
    """The same of the last of several names that are separated by commas."""

    def completed(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        before, comma, last = incomplete.rpartition(",")
        return [CompletionItem(f"{before}{comma}{name}") for name in names if name.startswith(last)]

    return completed


DATA = complete(DATASET_NAMES, FILES)
SCHEDULE = complete(policy_names(), FILES)
SEARCH_PRESET, EVALUATION_PRESET = complete(SEARCH_PRESETS), complete(EVALUATION_PRESETS)

COMPLETIONS: Mapping[str, tuple[str, Complete]] = MappingProxyType(
    {
        "model": ("NAME", complete(MODELS)),
        "pretrained": ("[FILE]", complete((TIMM, "none"), FILES)),
        "freeze": ("PART", complete((NOTHING, ALL_BUT_HEAD))),
        "device": ("NAME", complete(("auto", "cpu", "cuda"))),
        "operations": ("NAMES", complete_words(("all", *OPERATIONS))),
        "data_root": ("FOLDER", complete(or_paths=FOLDERS)),
        "init_from": ("SCHEDULE", SCHEDULE),
        "classes": ("FILE", complete(shipped_class_lists(), FILES)),
        "fill": ("R,G,B", complete()),
        "levels": ("LOW,HIGH", complete()),
        "path_column": ("NAME", complete()),
        "label_column": ("NAME", complete()),
        "label_separator": ("CHARACTER", complete()),
        "split_column": ("NAME", complete()),
        "lambda_betas": ("B1,B2", complete()),
    }
)
"""By setting, what stands for its value in the help, and what completes it."""
