"""hba export: a schedule for another library."""

import re
from pathlib import Path

import click
from torchvision.transforms.v2 import functional as TF

import hba
from hba.errors import SettingsError
from hba.exports import TARGETS, check, find_target
from hba.schedule.library import policy_file
from hba.schedule.summary import left_out

from .apply import epoch_of, read_some
from .options import file_option, path_option, schedule_argument
from .terminal import console, operations_file_option, say, table

MOST_REGULARIZERS = 8


@click.command()
@schedule_argument
@click.option("--to", "to", type=click.Choice(list(TARGETS)), required=True, help="Format of the file.")
@operations_file_option
@file_option(
    "--out",
    help="The file to write. [default: beside the schedule, ending _torchvision.py, _timm.py, or as --to says]",
)
@click.option("--epoch", type=int, help="Only this epoch's policy, counted from 1, throughout.")
@click.option("--average", is_flag=True, help="Only the mean of all epochs, throughout.")
@path_option(
    "--check",
    "check_on",
    multiple=True,
    metavar="IMAGES",
    help="Compare the file with the schedule on these images: a file, or some of a folder.",
)
def export(
    schedule: str, to: str, out: Path | None, epoch: int | None, average: bool, check_on: tuple[Path, ...]
) -> None:
    """Write SCHEDULE for another library, as a file that does not need hba.

    \b
      torchvision   a Python file with a torchvision v2 transform; it needs torch, torchvision and Pillow
      timm          the same for the loaders of timm
      kornia        a Python file with an augmentation of kornia, for batches; it needs torch and kornia
      albumentations
                    a pipeline that albumentations.load reads, of one policy: --epoch N or --average
      json          a schedule file of hba; docs/schedule.schema.json is its JSON schema

    Without --epoch and --average, it is the whole schedule. The values of what was tuned beside operations (dropout,
    weight decay, ...) are only in json.
    """
    loaded, target = hba.load_policy(schedule), find_target(to)
    if epoch is not None:
        if average:
            raise SettingsError("--epoch and --average exclude each other")
        loaded = loaded.only(epoch_of(loaded, epoch))
    elif average:
        loaded = loaded.averaged()
    source = policy_file(schedule) or Path(schedule)
    out = out or _beside(source, target.ending)
    if out.exists() and source.exists() and out.samefile(source):
        raise SettingsError(f"--out must be another file than the schedule, {source}")
    images = [TF.to_pil_image(pixels) for pixels in read_some(check_on, loaded)] if check_on else []
    text = hba.export(loaded, to, out)
    say(f"Written: {out} ({len(text.encode()) / 1000:.0f} kB)")
    if loaded.space.regularizers and not target.has_regularizers:
        say(f"Left out: {left_out(loaded.space, MOST_REGULARIZERS)}")
    if target.differs:
        say(f"Not exact: {target.differs} (--check IMAGES measures it)")
    if images:
        grey = [image.convert("L") for image in images]
        rows = (
            (one.what, f"{one.n:,}", f"{one.largest:.3g}", f"{one.mean:.3g}", one.verdict)
            for one in check(text, to, loaded, [*images, *grey])
        )
        headings = ("what", "compared", "largest difference", "mean difference", "")
        console().print(table(headings, rows, "differences in grey levels of 255"))


def _beside(schedule: Path, ending: str) -> Path:
    """Beside the schedule, in the current folder for a shipped one; never the schedule's own file."""
    stem = re.sub(r"\W", "_", schedule.name.removesuffix(".json"))
    stem = stem if stem.isidentifier() else f"policy_{stem}"
    return schedule.with_name(f"{stem}_export{ending}" if ending == ".json" else f"{stem}{ending}")
