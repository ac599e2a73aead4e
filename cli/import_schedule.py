"""hba import: schedules and policies that other programs found or published."""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from hba.errors import SettingsError
from hba.importers import SOURCES, import_policy
from hba.importers.pba import PBA_FILL
from hba.schedule.schedule import Schedule
from hba.utils.settings import color
from hba.utils.text import counted, percent

from .terminal import say

LEAST_DIFFERENCE = 0.005
"""Percent of the images; less is shown as nothing."""


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--from", "source", type=click.Choice(list(SOURCES)), required=True, help="What wrote FILE.")
@click.option(
    "--epochs",
    type=click.IntRange(1, 100_000),
    help="Epochs over which FILE was searched. [default: 1, the same policy in all epochs; pba: none]",
)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The schedule to write.")
@click.option("--name", help="Which of several lists in FILE, for fast-autoaugment and dada.")
@click.option(
    "--fill",
    metavar="R,G,B",
    help="Colour of borders and Cutout, numbers in [0, 1]. [default: 0, black; pba: "
    f"{','.join(f'{channel:.3g}' for channel in PBA_FILL)}, CIFAR-10's mean, as its Cutout]",
)
@click.pass_context
def import_schedule(
    context: click.Context, file: Path, source: str, epochs: int | None, out: Path, name: str | None, fill: str | None
) -> None:
    """Turn FILE, a schedule that another program found, into one for hba.

    \b
      pba           a policy log (.txt) of Population Based Augmentation
      fast-autoaugment, dada
                    a list of sub-policies: of archive.py, genotype.py, a log
      autoalbument  the JSON that it writes
      torchvision   in the place of FILE, one of these names:
                    autoaugment-imagenet, autoaugment-cifar10,
                    autoaugment-svhn, randaugment, trivialaugment

    What is not a schedule of hba's kind is expressed as closely as can be,
    and what is lost is said.
    """
    if epochs is None and SOURCES[source].epochs is None:
        parameter = next(one for one in context.command.params if one.name == "epochs")
        raise click.MissingParameter(ctx=context, param=parameter)
    schedule = import_policy(source, file, epochs=epochs, fill=None if fill is None else _fill(fill), name=name)
    schedule.save(out)
    for line in _lines(schedule, out):
        say(line)
    quoted = shlex.quote(str(out))
    say(f"Next, look at it, and see whether it helps on your images:\n  hba show {quoted}\n  hba evaluate {quoted} DIR")


def _lines(schedule: Schedule, out: Path) -> Iterator[str]:
    """What was read, and what the schedule does otherwise."""
    told = schedule.provenance
    is_fixed = "sub_policies" in told
    what = (
        counted(told["sub_policies"], "sub-policy", "sub-policies")
        if is_fixed
        else counted(len(told["segments"]), "segment")
    )
    operations = counted(len(schedule.space.operations), "operation")
    yield f"Schedule: {out} ({what} over {counted(schedule.epochs, 'epoch')}, {operations})"
    if is_fixed:
        yield from _losses(told)


def _losses(told: Mapping[str, Any]) -> Iterator[str]:
    """told: the provenance of a policy of another kind."""
    difference = 100 * told["largest_rate_difference"]
    but = "" if difference < LEAST_DIFFERENCE else f", but for up to {percent(difference)} of the images"
    yield f"The source gives an image {told['operations_of_an_image']:.2f} of these operations on average."
    yield f"The schedule applies each of them as often{but}."
    if told["left_out"]:
        shares = ", ".join(f"{name} {percent(100 * share)}" for name, share in told["left_out"].items())
        yield f"Left out, because hba has no such operation (share of all that is applied): {shares}."
    if told["widened"]:
        ranges = ", ".join(f"{name} {low:.3g} to {high:.3g}" for name, (low, high) in told["widened"].items())
        yield f"Ranges that are wider than hba's own: {ranges}."
    yield f"Not expressed: {'; '.join(told['not_expressed'])}."


def _fill(text: str) -> tuple[float, ...]:
    try:
        return color(text)
    except SettingsError as error:
        raise SettingsError(f"--fill {error}, got {text!r}") from None
