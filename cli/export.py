"""hba export: a schedule for another library."""

import re
from collections.abc import Sequence
from pathlib import Path

import click
from rich.table import Table
from torchvision.transforms.v2 import functional as TF

import hba
from hba.errors import SettingsError
from hba.exports import TARGETS, Checked, check, find_target
from hba.schedule.library import policy_file
from hba.schedule.summary import left_out

from .completion import SCHEDULE
from .operations_files import operations_file_option
from .some_images import read_some
from .terminal import console, say, table

SHOWN = 8
"""Regularizers that are named in one line."""


@click.command()
@click.argument("schedule", shell_complete=SCHEDULE)
@click.option("--to", "to", type=click.Choice(list(TARGETS)), required=True, help="For what the file is.")
@operations_file_option
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file to write. [default: beside the schedule, ending _torchvision.py, _timm.py, or as --to says]",
)
@click.option("--epoch", type=int, help="Only this epoch's policy, counted from 1, throughout.")
@click.option("--average", is_flag=True, help="Only the mean of all epochs, throughout.")
@click.option(
    "--check",
    "check_on",
    multiple=True,
    metavar="IMAGES",
    type=click.Path(path_type=Path),
    help="Compare what was written with the schedule on these images, a file or some of a folder.",
)
def export(
    schedule: str, to: str, out: Path | None, epoch: int | None, average: bool, check_on: tuple[Path, ...]
) -> None:
    """Write SCHEDULE for another library, into a file that needs nothing of hba.

    \b
      torchvision   a Python file with a torchvision v2 transform; it needs torch, torchvision and Pillow
      timm          the same for the loaders of timm
      kornia        a Python file with an augmentation of kornia, for batches; it needs torch and kornia
      albumentations
                    a pipeline that albumentations.load reads, of one policy: --epoch N or --average
      json          a schedule file of hba; docs/schedule.schema.json is its JSON schema

    Without --epoch and --average, it is the whole schedule. Of what was tuned beside operations (dropout, weight decay,
    ...), only json has the values.
    """
    chosen = _chosen(hba.load_policy(schedule), epoch, average)
    # For a shipped schedule its name, which is no file here.
    source = policy_file(schedule) or Path(schedule)
    out = out or _beside(source, find_target(to).ending)
    if out.exists() and source.exists() and out.samefile(source):
        raise SettingsError(f"--out must be another file than the schedule, {source}")
    images = [TF.to_pil_image(pixels) for pixels in read_some(check_on, chosen, None)] if check_on else []
    text = hba.export(chosen, to, out)
    say(f"Written: {out} ({len(text.encode()) / 1000:.0f} kB)")
    if chosen.space.regularizers and not find_target(to).has_regularizers:
        say(f"Left out: {left_out(chosen.space, SHOWN)}")
    if differs := find_target(to).differs:
        say(f"Not exact: {differs} (--check IMAGES measures it)")
    if images:
        console().print(check_table(check(text, to, chosen, [*images, *(image.convert("L") for image in images)])))


def _chosen(schedule: hba.Schedule, epoch: int | None, average: bool) -> hba.Schedule:
    if epoch is None:
        return schedule.averaged() if average else schedule
    if average:
        raise SettingsError("--epoch and --average exclude each other")
    if not 1 <= epoch <= schedule.epochs:
        raise SettingsError(f"--epoch must lie in [1, {schedule.epochs}], got {epoch}")
    return schedule.only(epoch - 1)


def _beside(schedule: Path, ending: str) -> Path:
    """A shipped schedule's is written into the current folder. No schedule file is written over."""
    stem = re.sub(r"\W", "_", schedule.name.removesuffix(".json"))
    stem = stem if stem.isidentifier() else f"policy_{stem}"
    return schedule.with_name(f"{stem}_export{ending}" if ending == ".json" else f"{stem}{ending}")


def check_table(checked: Sequence[Checked]) -> Table:
    """A row for each operation, and one for draws by the whole policy."""
    made = table(("what", "compared", "largest difference", "mean difference", ""), "differences in grey levels of 255")
    for one in checked:
        numbers = (f"{one.n:,}", f"{one.largest:.3g}", f"{one.mean:.3g}")
        made.add_row(one.what, *numbers, f"{one.verdict}: {one.said}" if one.said and not one.is_exact else one.verdict)
    return made
