"""hba import: schedules that other programs found."""

import shlex
from pathlib import Path

import click

from hba.errors import SettingsError
from hba.runtime.validation import color
from hba.runtime.wording import counted
from hba.schedule.pba import PBA_FILL, read_pba_schedule

from .terminal import say

READERS = {"pba": read_pba_schedule}


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--from", "source", type=click.Choice(list(READERS)), required=True, help="What wrote FILE.")
@click.option("--epochs", type=click.IntRange(1, 100_000), required=True, help="Epochs over which FILE was searched.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The schedule to write.")
@click.option(
    "--fill",
    metavar="R,G,B",
    help="Colour of borders and Cutout, numbers in [0, 1]. [default: "
    f"{','.join(f'{channel:.3g}' for channel in PBA_FILL)}, CIFAR-10's mean, as PBA's Cutout]",
)
def import_schedule(file: Path, source: str, epochs: int, out: Path, fill: str | None) -> None:
    """Turn FILE, a schedule that another program found, into one for hba.

    pba: a policy log (.txt) of Population Based Augmentation.
    """
    schedule = READERS[source](file, epochs, PBA_FILL if fill is None else _fill(fill))
    schedule.save(out)
    segments = counted(len(schedule.provenance["segments"]), "segment")
    operations = counted(len(schedule.space.operations), "operation")
    say(f"Schedule: {out} ({segments} over {counted(schedule.epochs, 'epoch')}, {operations})")
    quoted = shlex.quote(str(out))
    say(f"Next, look at it, and see whether it helps on your images:\n  hba show {quoted}\n  hba evaluate {quoted} DIR")


def _fill(text: str) -> tuple[float, ...]:
    try:
        return color(text)
    except SettingsError as error:
        raise SettingsError(f"--fill {error}, got {text!r}") from None
