"""hba prepare: decode and resize images once."""

import shlex
from pathlib import Path
from typing import Any

import click

from hba.data.config import DataConfig
from hba.data.load import IDLE, prepare as prepared
from hba.errors import SettingsError
from hba.utils.progress import ProgressBar
from hba.utils.text import counted

from .main import INTERRUPTED
from .options import DATA, given, path_option, settings_options
from .terminal import classes_line, say, terminated_as_interrupted


@click.command(params=settings_options(DataConfig, without=("data", *IDLE)))
@click.argument("data", shell_complete=DATA)
@path_option(
    "--out", required=True, help="A new folder for the images, to use instead of DATA."
)
def prepare(data: str, out: Path, **options: Any) -> None:
    """Decode and resize the images of DATA once, for searches and evaluations that read
    them many times.

    DATA is as for `hba search`. Then use the folder in --out instead of DATA: with the
    same --image-size, a search finds the same schedule, and reading an image only
    copies it. The images are memory-mapped, so they need not fit into memory.
    """
    if out.exists() and not out.is_dir():
        raise SettingsError(f"--out must be a folder, but {out} is a file")
    with ProgressBar() as bar, terminated_as_interrupted():
        try:
            summary = prepared(data, out, on_read=bar.images_read, **given(options))
        except KeyboardInterrupt:
            say(
                "Stopped; repeat the command to prepare the images from the start.",
                err=True,
            )
            raise SystemExit(INTERRUPTED) from None
    parts = ", ".join(
        f"{counted(n_images, 'image')} in {name}"
        for name, n_images in summary.n_images.items()
    )
    size = sum(file.stat().st_size for file in out.iterdir())
    classes = classes_line(summary.class_names, 0, None)
    say(
        f"Prepared: {parts}; {classes}; {summary.image_size} pixels a side,"
        f" {size / 1e6:,.1f} MB"
    )
    if summary.left_out:
        say(
            f"Left out: {counted(len(summary.left_out), 'file')}, the first is"
            f" {summary.left_out[0].path}"
        )
    say(f"Next:\n  hba search {shlex.quote(str(out))}")
