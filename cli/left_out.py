"""What hba predict says of files that cannot be read."""

from collections.abc import Sequence
from pathlib import Path

from hba.data.reading import SkippedFile, printable
from hba.errors import DataError
from hba.utils.text import counted

from .main import USER_ERROR
from .terminal import say


def none_can_be_read(
    files: Sequence[Path], left_out: Sequence[SkippedFile]
) -> DataError:
    """The error if there is no prediction.

    Args:
        files: All files that were named, or found in folders that were.
        left_out: Those that cannot be read, and files in the folders that are no
            images.
    """
    n_files = len({*map(str, files), *(skipped.path for skipped in left_out)})
    what = "the file" if n_files == 1 else f"any of {counted(n_files, 'file')}"
    why = f", {left_out[0].path} ({left_out[0].reason})" if left_out else ""
    return DataError(f"cannot read {what}{why}; name image files, or folders with some")


def end_with_left_out(
    left_out: Sequence[SkippedFile], images: Sequence[Path], *, are_listed: bool
) -> None:
    """List the files, and exit with an error if one of them was named itself.

    Args:
        left_out: The files.
        images: Files and folders that were named.
        are_listed: Whether to print them.
    """
    for skipped in left_out if are_listed else ():
        say(f"left out: {printable(skipped.path)} ({skipped.reason})", err=True)
    if {skipped.path for skipped in left_out} & {str(path) for path in images}:
        raise SystemExit(USER_ERROR)
