"""Files are written whole or not at all, and two runs never share a folder."""

import errno
import os
from pathlib import Path
from typing import BinaryIO

import pytest

from hba.errors import RunError
from hba.utils.files import LOCK_NAME, run_lock, write_atomically, write_text


class Stopped(BaseException):
    """Stands for anything that ends a program."""


def test_text_replaces_the_old_file_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "one" / "a.txt"
    write_text(path, "old")
    seen = []

    def write(file: BinaryIO) -> None:
        file.write("λ = 0.05\nß\r\n".encode())
        file.flush()
        seen.append(path.read_text())

    with path.open() as reader:
        write_atomically(path, write)
        assert (seen, reader.read()) == (["old"], "old")
    assert path.read_bytes() == b"\xce\xbb = 0.05\n\xc3\x9f\r\n"
    assert list(path.parent.iterdir()) == [path]


def test_whatever_stops_the_writing_the_old_content_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    full_disk = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    torch_error = RuntimeError("PytorchStreamWriter failed writing file\nframe #0")
    for error in (
        Stopped(),
        KeyboardInterrupt(),
        ValueError("a bug"),
        MemoryError(),
        full_disk,
        torch_error,
        OSError(),
    ):

        def write(file: BinaryIO, error: BaseException = error) -> None:
            file.write(b"half of the new")
            file.flush()
            raise error

        with pytest.raises(
            RunError if isinstance(error, OSError | RuntimeError) else type(error)
        ) as raised:
            write_atomically(path, write)
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]
        if isinstance(raised.value, RunError):
            assert str(path) in str(raised.value)
            assert len(str(raised.value).splitlines()) == 1


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("old")
    for path in (
        tmp_path / "folder",
        tmp_path / "file" / "a.txt",
        tmp_path / ("a" * 300),
    ):
        with pytest.raises(RunError, match="cannot write"):
            write_text(path, "new")
    with pytest.raises(RunError, match="cannot write"):
        run_lock(tmp_path / "file" / "run").__enter__()
    assert (tmp_path / "file").read_text() == "old"


def test_a_second_run_in_a_folder_is_refused_until_the_first_ends(
    tmp_path: Path,
) -> None:
    with run_lock(tmp_path):
        with pytest.raises(RunError, match=str(tmp_path)):
            run_lock(tmp_path).__enter__()
        with run_lock(tmp_path / "other"), run_lock(None), run_lock(None):
            pass
    with pytest.raises(Stopped), run_lock(tmp_path):
        raise Stopped
    with run_lock(tmp_path):
        pass
    out = tmp_path / "runs" / "a"
    with run_lock(out):
        assert (out / LOCK_NAME).exists()
    assert not out.exists()
    with run_lock(out):
        (out / "found").touch()
    assert {path.name for path in out.iterdir()} == {"found", LOCK_NAME}
