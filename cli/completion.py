"""Shell completion of options and arguments whose values are no fixed choice."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import click
from click.shell_completion import CompletionItem

from hba.config.presets import EVALUATION_PRESETS, SEARCH_PRESETS
from hba.data.arrays import DATASET_NAMES
from hba.data.splits import shipped_class_lists
from hba.models import MODELS
from hba.models.timm_networks import ALL_BUT_HEAD, NOTHING, TIMM
from hba.operations import OPERATIONS
from hba.schedule.library import policy_names

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
FILES, FOLDERS = "file", "dir"
"""click's names of what the shell completes by itself."""


def complete(names: Iterable[str] = (), paths: str | None = None, *, several: bool = False) -> Complete:
    """Completes names, and paths where `paths` is FILES or FOLDERS. several: names separated by commas."""

    def completed(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        before, comma, last = incomplete.rpartition(",") if several else ("", "", incomplete)
        begun = [CompletionItem(f"{before}{comma}{name}") for name in names if name.startswith(last)]
        return [*begun, *([CompletionItem(incomplete, type=paths)] if paths else [])]

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
        "operations": ("NAMES", complete(("all", *OPERATIONS), several=True)),
        "data_root": ("FOLDER", complete((), FOLDERS)),
        "init_from": ("SCHEDULE", SCHEDULE),
        "classes": ("FILE", complete(shipped_class_lists(), FILES)),
        "tune": ("NAMES", complete()),
        "fill": ("R,G,B", complete()),
        "levels": ("LOW,HIGH", complete()),
        "lambda_betas": ("B1,B2", complete()),
        "val_batch_size": ("INT", complete(("half",))),
    }
)
"""By setting, the placeholder of its value in the help, and its completion."""
