"""hba apply: look at what a policy does to images."""

from pathlib import Path

import click

import hba
from hba.errors import SettingsError
from hba.report.findings import reach_line, shares_line
from hba.schedule.pictures import draw_augmented, is_seen
from hba.schedule.summary import not_on_pixels
from hba.utils.text import first_of

from .completion import SCHEDULE
from .operations_files import operations_file_option
from .options import Picture
from .some_images import read_some
from .terminal import say


@click.command()
@click.argument("schedule", shell_complete=SCHEDULE)
@click.argument("images", nargs=-1, required=True, type=click.Path(path_type=Path))
@operations_file_option
@click.option("--out", type=Picture(), required=True, help="The PNG file to write.")
@click.option("--epoch", type=int, help="Which epoch's policy, counted from 1. [default: the last]")
@click.option("--copies", type=click.IntRange(1, 32), default=8, show_default=True, help="Augmented copies per image.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Decides the draws.")
@click.option("--image-size", type=click.IntRange(8, 1024), help="Side in pixels. [default: as in the search]")
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

    Beside each copy stand the operations that made it, and the regularizers that act on pixels. Of a folder, some of
    its images are taken.
    """
    loaded = hba.load_policy(schedule)
    epoch = loaded.epochs if epoch is None else epoch
    if not 1 <= epoch <= loaded.epochs:
        raise SettingsError(f"--epoch must lie in [1, {loaded.epochs}], got {epoch}")
    hidden = not_on_pixels(loaded.space)
    if not is_seen(loaded.space):
        raise SettingsError(
            f"the schedule has nothing that changes pixels, only {first_of(hidden)}; hba show has their values"
        )
    pixels = read_some(images, loaded, image_size)
    draw_augmented(loaded, pixels, out, epoch=epoch - 1, n_copies=copies, seed=seed)
    if loaded.space.operations:
        say(reach_line(loaded, epoch - 1))
        say(shares_line(loaded, epoch - 1))
    if hidden:
        say(f"Not shown, because they act elsewhere: {', '.join(hidden)}")
    say(f"Picture: {out}")
