"""hba apply, export and import: use a schedule on images, write one for another
library, or convert another one.
"""

import contextlib
import re
import shlex
import statistics
from collections.abc import Sequence
from pathlib import Path

import click
from torch import Tensor

import hba
from hba.data.config import FOLDER_IMAGE_SIZE, DataConfig
from hba.data.folder import files_in
from hba.data.reading import opened, read_image
from hba.errors import DataError, SettingsError
from hba.exports import TARGETS, find_target
from hba.exports.mixing import mixing_note
from hba.importers import SOURCES, import_policy
from hba.importers.pba import PBA_FILL
from hba.report.findings import reach_line
from hba.report.samples import LARGEST_NATIVE
from hba.schedule.library import policy_file
from hba.schedule.pictures import draw_augmented
from hba.schedule.summary import left_out, spaced
from hba.utils.settings import color
from hba.utils.text import counted, first_of

from .options import file_option, picture, schedule_argument
from .terminal import operations_file_option, say

N_OF_FOLDER = 6
"""Number of images that are used from a folder."""


@click.command()
@schedule_argument
@click.argument("images", nargs=-1, required=True, type=click.Path(path_type=Path))
@operations_file_option
@file_option("--out", callback=picture, required=True, help="The PNG file to write.")
@click.option(
    "--epoch",
    type=int,
    help="Epoch whose policy is used, counted from 1. [default: the last]",
)
@click.option(
    "--copies",
    type=click.IntRange(1, 32),
    default=8,
    show_default=True,
    help="Augmented copies per image.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="Seed of the draws.",
)
@click.option(
    "--image-size",
    type=click.IntRange(8, 1024),
    help="Side in pixels. [default: theirs, at most 256]",
)
def apply(
    schedule: str,
    images: tuple[Path, ...],
    out: Path,
    epoch: int | None,
    copies: int,
    seed: int,
    image_size: int | None,
) -> None:
    """Write a grid of augmented copies of IMAGES.

    Each copy is labeled with the operations that made it. From a folder, only some
    images are used.
    """
    loaded = hba.load_policy(schedule)
    epoch = epoch_of(loaded, loaded.epochs if epoch is None else epoch)
    hidden = [
        *(operation.name for operation in loaded.space.mixing),
        *(regularizer.name for regularizer in loaded.space.regularizers),
    ]
    if not loaded.space.acts_on_images:
        raise SettingsError(
            f"the schedule changes no single image, only {first_of(hidden)}; hba show"
            " prints them"
        )
    files = files_of(images)
    pixels = read_some(files, loaded, image_size or own_size(files))
    draw_augmented(loaded, pixels, out, epoch=epoch, n_copies=copies, seed=seed)
    say(reach_line(loaded, epoch))
    if hidden:
        say(
            "Not shown, because they do not act on the pixels of single images:"
            f" {', '.join(hidden)}"
        )
    say(f"Picture: {out}")


def epoch_of(schedule: hba.Schedule, epoch: int) -> int:
    """Convert an epoch counted from 1 to one counted from 0. SettingsError if the
    schedule has no such epoch.
    """
    if not 1 <= epoch <= schedule.epochs:
        raise SettingsError(f"--epoch must lie in [1, {schedule.epochs}], got {epoch}")
    return epoch - 1


def files_of(sources: Sequence[Path]) -> list[Path]:
    """The files, and some of each folder."""
    return [
        path
        for source in sources
        for path in (_some_of(source) if source.is_dir() else [source])
    ]


def own_size(files: Sequence[Path]) -> int | None:
    """The median of the shorter sides in pixels, at most LARGEST_NATIVE; None where no
    image can be read.
    """
    sides = []
    for path in files:
        with contextlib.suppress(DataError), opened(path) as image:
            sides.append(min(image.size))
    return max(8, min(LARGEST_NATIVE, statistics.median_low(sides))) if sides else None


def read_some(
    files: Sequence[Path], schedule: hba.Schedule, image_size: int | None = None
) -> list[Tensor]:
    """Read the images as uint8 (3, size, size), by default in the size of the search.

    Images that cannot be read are left out. DataError if none can be read.
    """
    size = schedule.provenance.get("image_size")
    settings = schedule.provenance.get("settings")
    size = image_size or (size if isinstance(size, int) else FOLDER_IMAGE_SIZE)
    levels = (
        DataConfig.make({"levels": settings.get("levels")}).levels
        if isinstance(settings, dict)
        else None
    )
    pixels = list[Tensor]()
    broken = list[str]()
    for path in files:
        try:
            pixels.append(read_image(path, size, levels))
        except DataError as error:
            broken.append(f"{path} ({error})")
    if not pixels:
        raise DataError(f"cannot read the image {broken[0]}; name another")
    if broken:
        say(
            f"Left out: {counted(len(broken), 'image')} that cannot be read, the first"
            f" is {broken[0]}"
        )
    return pixels


def _some_of(folder: Path) -> list[Path]:
    """Some images of a folder, evenly spaced in the order of their paths."""
    files, broken = files_in(folder)
    if not files:
        but = f", but {broken[0].path} ({broken[0].reason})" if broken else ""
        raise DataError(
            f"the folder {folder} holds no images{but}; name image files, or a folder"
            " with some"
        )
    if len(files) > N_OF_FOLDER:
        say(f"{N_OF_FOLDER} of the {len(files):,} images in {folder}")
    return [files[index] for index in spaced(len(files), N_OF_FOLDER)]


@click.command()
@schedule_argument
@click.option(
    "--to",
    "to",
    type=click.Choice(list(TARGETS)),
    required=True,
    help="Format of the file.",
)
@operations_file_option
@file_option(
    "--out",
    help=(
        "The file to write. [default: beside the schedule, ending in _torchvision.py,"
        " ...]"
    ),
)
@click.option(
    "--epoch", type=int, help="Write only the policy of this epoch, counted from 1."
)
@click.option(
    "--average", is_flag=True, help="Write only the mean policy of all epochs."
)
@click.option(
    "--without",
    metavar="NAMES",
    help="Operations outside the walk to leave out: Perspective,Elastic.",
)
@click.option(
    "--mask-fill",
    type=float,
    default=0,
    help="Value of uncovered pixels of masks, such as 255. [default: 0]",
)
def export(
    schedule: str,
    to: str,
    out: Path | None,
    epoch: int | None,
    average: bool,
    without: str | None,
    mask_fill: float,
) -> None:
    """Write SCHEDULE for another library, as a file that does not need hba.

    \b
      torchvision   a Python file with a torchvision v2 transform; it needs torch,
                    torchvision and Pillow
      kornia        a Python file with an augmentation of kornia, for batches; it needs
                    torch and kornia
      albumentations
                    a pipeline that albumentations.load reads, of one policy: --epoch N,
                    --average, or the last epoch
      json          a schedule file of hba; docs/schedule.schema.json is its JSON schema

    Without --epoch and --average, the file holds the whole schedule. Only json keeps
    the values of tuned regularizers (dropout, weight decay, ...). Mixup and CutMix act
    on batches: the head of a Python file explains how to mix.
    """
    loaded = hba.load_policy(schedule)
    target = find_target(to)
    if without:
        loaded = loaded.without(*without.split(","))
    if epoch is not None:
        if average:
            raise SettingsError("--epoch and --average exclude each other")
        loaded = loaded.only(epoch_of(loaded, epoch))
    elif average:
        loaded = loaded.averaged()
    source = policy_file(schedule) or Path(schedule)
    # Beside the schedule, in the current folder for a shipped one, and with a name that
    # Python can import.
    stem = re.sub(r"\W", "_", source.name.removesuffix(".json"))
    stem = stem if stem.isidentifier() else f"policy_{stem}"
    out = out or source.with_name(
        f"{stem}_export.json" if to == "json" else f"{stem}{target.ending}"
    )
    if out.exists() and source.exists() and out.samefile(source):
        raise SettingsError(f"--out must be another file than the schedule, {source}")
    text = hba.export(loaded, to, out, mask_fill=mask_fill)
    say(f"Written: {out} ({len(text.encode()) / 1000:.0f} kB)")
    if loaded.space.regularizers and not target.has_regularizers:
        say(f"Left out: {left_out(loaded.space)}")
    if (note := mixing_note(loaded)) and to != "json":
        say(f"Left out: {note}")
    if target.differs:
        say(f"Not exact: {target.differs}")


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--from",
    "source",
    type=click.Choice(list(SOURCES)),
    required=True,
    help="Program that wrote FILE.",
)
@click.option(
    "--epochs",
    type=click.IntRange(1, 100_000),
    help=(
        "Number of epochs of the search. [default: 1, the same policy in all epochs;"
        " required for pba]"
    ),
)
@file_option("--out", required=True, help="The schedule to write.")
@click.option(
    "--name",
    help="Name of the list, if FILE has several; for fast-autoaugment and dada.",
)
@click.option(
    "--fill",
    metavar="R,G,B",
    help=(
        "Color of borders and Cutout, numbers in [0, 1]. [default: 0, black; pba:"
        f" {','.join(f'{channel:.3g}' for channel in PBA_FILL)}, CIFAR-10's mean, as"
        " its Cutout]"
    ),
)
def import_schedule(
    file: Path,
    source: str,
    epochs: int | None,
    out: Path,
    name: str | None,
    fill: str | None,
) -> None:
    """Convert FILE, a schedule of another program, into a schedule of hba.

    \b
      pba           a policy log (.txt) of Population Based Augmentation
      fast-autoaugment, dada
                    a list of sub-policies: archive.py, genotype.py, ...
      torchvision   instead of FILE, one of these names:
                    autoaugment-imagenet, autoaugment-cifar10,
                    autoaugment-svhn, randaugment, trivialaugment

    A policy of another kind is approximated as closely as possible, and the differences
    are printed.
    """
    try:
        channels = None if fill is None else color(fill)
    except SettingsError as error:
        raise SettingsError(f"--fill {error}, got {fill!r}") from None
    schedule = import_policy(source, file, epochs=epochs, fill=channels, name=name)
    schedule.save(out)
    provenance = schedule.provenance
    n_sub_policies = provenance.get("sub_policies")
    pieces = (
        counted(len(provenance["segments"]), "segment")
        if n_sub_policies is None
        else counted(n_sub_policies, "sub-policy", "sub-policies")
    )
    operations = counted(len(schedule.space.operations), "operation")
    say(
        f"Schedule: {out} ({pieces} over {counted(schedule.epochs, 'epoch')},"
        f" {operations})"
    )
    if "not_expressed" in provenance:
        if provenance["left_out"]:
            say(
                "Left out, because hba has no such operation:"
                f" {', '.join(provenance['left_out'])}."
            )
        say(f"Not expressed: {'; '.join(provenance['not_expressed'])}.")
        say(
            "hba show --json prints further differences: rates, and ranges of"
            " magnitudes."
        )
    quoted = shlex.quote(str(out))
    say(
        f"Next, look at it, and see whether it helps:\n  hba show {quoted}\n  hba"
        f" evaluate {quoted} DIR"
    )
