"""Help in sections, for commands with many options: --help shows the common options,
--help-all shows all.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import click
from pydantic import BaseModel

from hba.algorithms import Algorithm
from hba.config.training import CommonSearchConfig, TrainingConfig
from hba.data.config import DataConfig

from .options import AlgorithmChoice, AlgorithmOption

SECTIONS: Mapping[str, type[BaseModel]] = MappingProxyType(
    {
        "Data": DataConfig,
        "Network and training": TrainingConfig,
        "Search": CommonSearchConfig,
        "Algorithm": Algorithm,
    }
)
"""The settings that are listed under each title. The last section, Run, has all other
options.
"""

_RUN = ("device", "out", "resume")
_TEXT = ("vocabulary_size", "width", "epochs", "batch_size", "learning_rate")
COMMON: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "auto": (
            "image_size",
            "masks",
            "skip_broken",
            "model",
            "pretrained",
            "epochs",
            "budget_seconds",
            "against",
            "seeds",
            "operations",
            "jobs",
            "cluster",
            *_RUN,
        ),
        "search": (
            "image_size",
            "masks",
            "skip_broken",
            "model",
            "pretrained",
            "epochs",
            "budget_seconds",
            "batch_size",
            "fast",
            "baseline",
            "tune",
            "algorithm",
            "paper",
            "config",
            "seeds",
            "jobs",
            *_RUN,
        ),
        "evaluate": (
            "image_size",
            "masks",
            "skip_broken",
            "model",
            "epochs",
            "batch_size",
            "baseline",
            "against",
            "spread",
            "preset",
            "seeds",
            "jobs",
            "cluster",
            "allow_seen",
            *_RUN,
        ),
        "train": (
            "image_size",
            "masks",
            "skip_broken",
            "model",
            "pretrained",
            "epochs",
            "batch_size",
            "learning_rate",
            "fast",
            "baseline",
            "spread",
            "preset",
            "first_seed",
            "cluster",
            "allow_seen",
            "config",
            *_RUN,
        ),
        "search-text": ("tune", *_TEXT, "algorithm", "seed", *_RUN),
        "evaluate-text": (*_TEXT, "against", "seeds", *_RUN),
    }
)
"""The options that --help lists for each command."""

_ALL = "hba.help_all"


class SectionedCommand(click.Command):
    """A command whose help lists its options in sections.

    `--help` lists the common options, `--help-all` all options except those of
    algorithms, and `--algorithm NAME --help-all` the options of one algorithm.
    """

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), _HELP_ALL]

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        sections: dict[str, list[tuple[str, str]]] = {
            title: [] for title in (*SECTIONS, "Run")
        }
        for option in self._listed(ctx):
            if (
                isinstance(option, click.Option)
                and (record := option.get_help_record(ctx)) is not None
            ):
                sections[section_of(option)].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        if _ALL not in ctx.meta:
            formatter.write_text(f"`{ctx.command_path} --help-all` lists all options.")
        if self._algorithm_choice() and ctx.params.get("algorithm") is None:
            formatter.write_text(
                f"`{ctx.command_path} --algorithm NAME --help-all` lists those of one"
                " algorithm."
            )

    def _listed(self, ctx: click.Context) -> Iterable[click.Parameter]:
        chosen = ctx.params.get("algorithm")
        choice = self._algorithm_choice()
        if _ALL in ctx.meta and chosen is not None and choice is not None:
            return (choice, *choice.pages[chosen], _HELP_ALL)
        options = [
            parameter
            for parameter in self.get_params(ctx)
            if not isinstance(parameter, AlgorithmOption)
        ]
        if _ALL in ctx.meta:
            return options
        common = COMMON[self.name or ""]
        return [
            parameter
            for parameter in options
            if parameter.is_eager or parameter.name in common
        ]

    def _algorithm_choice(self) -> AlgorithmChoice | None:
        return next(
            (option for option in self.params if isinstance(option, AlgorithmChoice)),
            None,
        )


def section_of(option: click.Parameter) -> str:
    """The title under which an option is listed."""
    if isinstance(option, AlgorithmOption | AlgorithmChoice):
        return "Algorithm"
    return next(
        (
            title
            for title, settings in SECTIONS.items()
            if option.name in settings.model_fields
        ),
        "Run",
    )


def _show_all(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


_HELP_ALL = click.Option(
    ["--help-all"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_all,
    help="Show all options and exit.",
)
