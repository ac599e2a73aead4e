"""Help in sections, for commands with many options: what everybody needs first, what is for research last."""

from collections.abc import Mapping
from types import MappingProxyType

import click

from hba.config.search import CommonSearchConfig
from hba.data.config import DataConfig
from hba.policy_search.config import ALGORITHM_SETTINGS

RUN, IMAGES, TRAINING, BASELINE = "This run", "Images and splits", "Network and training", "Baseline augmentation"
SPACE, SEARCH, MOVES = "What is searched", "Search", "Search: its steps on lambda, for (5), (6) and lookahead"
NETWORKS = "Search: hyper-layers and populations, for (3) to (6)"

SECTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        RUN: ("seed", "device"),
        IMAGES: (),
        TRAINING: ("model", "epochs", "batch_size", "learning_rate", "learning_rate_schedule", "weight_decay"),
        BASELINE: (
            "baseline_like",
            "flip",
            "crop_padding",
            "cutout_size",
            "random_resized_crop",
            "color_jitter",
            "pca_jitter",
        ),
        SPACE: ("space", "operations", "operations_file", "interpolation", "fill", "initial_fraction"),
        SEARCH: (),
        MOVES: (
            "lambda_learning_rate",
            "lambda_betas",
            "warm_up_epochs",
            "val_steps",
            "val_batch_size",
            "val_batches",
            "val_statistics",
            "sigma_end",
            "calibrate",
            "trust_radius",
            "logit_bound",
            "reward_draws",
            "reward_limit",
        ),
        NETWORKS: (
            "sharing",
            "response",
            "response_weight_decay",
            "population_size",
            "weight_sigma",
            "batched_members",
        ),
    }
)
"""By title, the options that do not stand where they would by themselves."""


class SectionedCommand(click.Command):
    """A command whose help lists its options in sections."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in SECTIONS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                sections[section_of(parameter.name or "")].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def section_of(name: str) -> str:
    """The title under which an option is listed; what no section names goes by where the setting is declared."""
    for title, names in SECTIONS.items():
        if name in names:
            return title
    if name in DataConfig.model_fields:
        return IMAGES
    return SEARCH if name in (*CommonSearchConfig.model_fields, *ALGORITHM_SETTINGS) else RUN
