"""Help in panels, for commands with many options: what people need first, and all the rest with --help-all."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import click

from hba.data.config import DataConfig

from .options import AlgorithmOption

DATA, TRAINING, BASELINE = "Data", "Network and training", "Baseline augmentation"
SPACE, ALGORITHM, RUN = "Search space", "Algorithm", "Run and output"

SECTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        DATA: ("vocabulary_size",),
        TRAINING: (
            "model",
            "pretrained",
            "freeze",
            "standardize_by",
            "epochs",
            "budget_seconds",
            "batch_size",
            "optimizer",
            "learning_rate",
            "learning_rate_schedule",
            "plateau_epochs",
            "learning_rate_warm_up_epochs",
            "weight_decay",
            "width",
            "layers",
            "sequence_length",
            "patience_epochs",
            "clip_norm",
        ),
        BASELINE: (
            "baseline",
            "baseline_like",
            "flip",
            "crop_padding",
            "cutout_size",
            "random_resized_crop",
            "color_jitter",
            "pca_jitter",
        ),
        SPACE: ("space", "operations", "interpolation", "fill"),
        ALGORITHM: (),
        RUN: (),
    }
)
"""By title, the options that do not stand where they would by themselves."""

FIRST: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "search": (
            "image_size",
            "model",
            "epochs",
            "budget_seconds",
            "baseline",
            "operations",
            "algorithm",
            "seed",
            "out",
            "resume",
        ),
        "evaluate": (
            "image_size",
            "model",
            "epochs",
            "baseline",
            "against",
            "seeds",
            "jobs",
            "device",
            "out",
            "resume",
        ),
        "search-text": (
            "tune",
            "vocabulary_size",
            "width",
            "epochs",
            "batch_size",
            "learning_rate",
            "algorithm",
            "seed",
            "out",
            "resume",
        ),
        "evaluate-text": (
            "vocabulary_size",
            "width",
            "against",
            "epochs",
            "batch_size",
            "learning_rate",
            "seeds",
            "device",
            "out",
            "resume",
        ),
    }
)
"""By command, the options that --help lists."""

_ALL = "hba.help_all"


class SectionedCommand(click.Command):
    """A command whose help lists its options in panels: the first ones, or with --help-all every one."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), _HELP_ALL]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, options in self._panels(ctx).items():
            records = [record for option in options if (record := option.get_help_record(ctx)) is not None]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if _ALL not in ctx.meta:
            n_options = sum(map(len, self._panels(ctx, with_all=True).values()))
            formatter.write_paragraph()
            formatter.write_text(f"`{ctx.command_path} --help-all` lists all {n_options} options.")
            if any(isinstance(option, AlgorithmOption) for option in self._options(ctx)):
                formatter.write_text(f"`{ctx.command_path} --algorithm NAME --help-all` lists those of one algorithm.")

    def _panels(self, ctx: click.Context, *, with_all: bool = False) -> Mapping[str, list[click.Option]]:
        panels: dict[str, list[click.Option]] = {title: [] for title in SECTIONS}
        chosen = ctx.params.get("algorithm")
        for option in self._options(ctx):
            if chosen is not None and isinstance(option, AlgorithmOption) and chosen not in option.readers:
                continue
            # What shows help is eager.
            if with_all or _ALL in ctx.meta or option.is_eager or option.name in FIRST[self.name or ""]:
                panels[section_of(option)].append(option)
        return panels

    def _options(self, ctx: click.Context) -> Iterator[click.Option]:
        return (parameter for parameter in self.get_params(ctx) if isinstance(parameter, click.Option))


def section_of(option: click.Option) -> str:
    """The title under which an option is listed; what no section names goes by where the setting is declared."""
    name = option.name or ""
    if isinstance(option, AlgorithmOption):
        return ALGORITHM
    for title, names in SECTIONS.items():
        if name in names:
            return title
    return DATA if name in DataConfig.model_fields else RUN


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
