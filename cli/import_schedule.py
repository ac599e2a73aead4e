"""hba import: schedules and policies that other programs found or published."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from hba.errors import SettingsError
from hba.importers import SOURCES, import_policy
from hba.importers.pba import PBA_FILL
from hba.schedule.schedule import Schedule
from hba.utils.settings import color
from hba.utils.text import counted

from .options import file_option
from .terminal import say


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--from", "source", type=click.Choice(list(SOURCES)), required=True, help="What wrote FILE.")
@click.option(
    "--epochs",
    type=click.IntRange(1, 100_000),
    help="Epochs over which FILE was searched. [default: 1, the same policy in all epochs; pba: none]",
)
@file_option("--out", required=True, help="The schedule to write.")
@click.option("--name", help="Which of several lists in FILE, for fast-autoaugment and dada.")
@click.option(
    "--fill",
    metavar="R,G,B",
    help="Colour of borders and Cutout, numbers in [0, 1]. [default: 0, black; pba: "
    f"{','.join(f'{channel:.3g}' for channel in PBA_FILL)}, CIFAR-10's mean, as its Cutout]",
)
def import_schedule(file: Path, source: str, epochs: int | None, out: Path, name: str | None, fill: str | None) -> None:
    """Convert FILE, a schedule that another program found, into a schedule of hba.

    \b
      pba           a policy log (.txt) of Population Based Augmentation
      fast-autoaugment, dada
                    a list of sub-policies: of archive.py, genotype.py, a log
      autoalbument  the JSON that it writes
      torchvision   instead of FILE, one of these names:
                    autoaugment-imagenet, autoaugment-cifar10,
                    autoaugment-svhn, randaugment, trivialaugment

    A policy of another kind is approximated as closely as possible, and the differences are printed.
    """
    try:
        channels = None if fill is None else color(fill)
    except SettingsError as error:
        raise SettingsError(f"--fill {error}, got {fill!r}") from None
    schedule = import_policy(source, file, epochs=epochs, fill=channels, name=name)
    schedule.save(out)
    for line in _lines(schedule, out):
        say(line)
    quoted = shlex.quote(str(out))
    say(f"Next, look at it, and see whether it helps:\n  hba show {quoted}\n  hba evaluate {quoted} DIR")


def _lines(schedule: Schedule, out: Path) -> Iterator[str]:
    """What was read, and how the schedule differs from it."""
    provenance = schedule.provenance
    operations = counted(len(schedule.space.operations), "operation")
    if "sub_policies" in provenance:
        what = counted(provenance["sub_policies"], "sub-policy", "sub-policies")
    else:
        what = counted(len(provenance["segments"]), "segment")
    yield f"Schedule: {out} ({what} over {counted(schedule.epochs, 'epoch')}, {operations})"
    if "not_expressed" in provenance:
        if provenance["left_out"]:
            yield f"Left out, because hba has no such operation: {', '.join(provenance['left_out'])}."
        yield f"Not expressed: {'; '.join(provenance['not_expressed'])}."
        yield "hba show --json prints further differences: rates, and ranges of magnitudes."
