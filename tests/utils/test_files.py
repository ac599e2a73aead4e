"""Files are written whole or not at all."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from hba.errors import RunError
from hba.utils.files import write_atomically, write_text

Write = Callable[[BinaryIO], object]


class Stopped(BaseException):
    """Stands for anything that ends a program, such as KeyboardInterrupt."""


def writing_half_then(error: BaseException) -> Write:
    def write(file: BinaryIO) -> None:
        file.write(b"half of the new")
        file.flush()
        raise error

    return write


def full_disk() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_the_bytes_written_are_the_file_and_nothing_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    write_atomically(path, lambda file: file.write(bytes(range(256))))
    assert path.read_bytes() == bytes(range(256))
    assert list(tmp_path.iterdir()) == [path]


def test_text_is_written_as_utf_8_with_its_line_ends(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "λ = 0.05\nß\r\n")
    assert (tmp_path / "a.txt").read_bytes() == b"\xce\xbb = 0.05\n\xc3\x9f\r\n"


def test_an_old_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a long old content")
    write_text(path, "new")
    assert path.read_text() == "new"


def test_a_reader_of_the_old_file_never_meets_the_new_one(tmp_path: Path) -> None:
    """The new file takes the old one's name in one step; the old is not written over."""
    path = tmp_path / "a.txt"
    path.write_text("old")
    with path.open() as reader:
        write_text(path, "new")
        assert reader.read() == "old"


def test_missing_folders_are_made(tmp_path: Path) -> None:
    write_text(tmp_path / "one" / "two" / "a.txt", "new")
    assert (tmp_path / "one" / "two" / "a.txt").read_text() == "new"


def test_the_old_content_is_there_until_the_new_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    seen = []

    def write(file: BinaryIO) -> None:
        file.write(b"new")
        file.flush()
        seen.append(path.read_text())

    write_atomically(path, write)
    assert seen == ["old"]
    assert path.read_text() == "new"


@pytest.mark.parametrize("error", [Stopped(), KeyboardInterrupt(), ValueError("a bug"), MemoryError()])
def test_whatever_stops_the_writing_the_old_content_stays(error: BaseException, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(type(error)):
        write_atomically(path, writing_half_then(error))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_stopped_writing_leaves_no_new_file(tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        write_atomically(tmp_path / "a.txt", writing_half_then(Stopped()))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (full_disk(), "No space left on device"),
        # torch.save's way to report the same.
        (RuntimeError("PytorchStreamWriter failed writing file\nframe #0"), "PytorchStreamWriter failed writing file"),
        (OSError("without number"), "without number"),
        (OSError(), ""),
        (RuntimeError(), ""),
    ],
)
def test_a_full_disk_is_one_clear_line_and_keeps_the_old_file(error: Exception, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(RunError) as raised:
        write_atomically(path, writing_half_then(error))
    message = str(raised.value)
    assert message.startswith(f"cannot write {path}: {reason}")
    assert message.endswith("what was there before is kept")
    assert "\n" not in message
    assert raised.value.__cause__ is error
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_disk_that_is_full_only_when_the_data_is_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int) -> None:
        raise full_disk()

    monkeypatch.setattr(os, "fsync", refuse)
    (tmp_path / "a.txt").write_text("old")
    with pytest.raises(RunError, match="No space left on device"):
        write_text(tmp_path / "a.txt", "new")
    assert (tmp_path / "a.txt").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").mkdir()
    with pytest.raises(RunError, match=r"cannot write .*a\.txt"):
        write_text(tmp_path / "a.txt", "new")
    assert list(tmp_path.iterdir()) == [tmp_path / "a.txt"]


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("old")
    with pytest.raises(RunError, match=r"cannot write .*a\.txt"):
        write_text(tmp_path / "runs" / "a.txt", "new")
    assert (tmp_path / "runs").read_text() == "old"


def test_a_name_that_the_system_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"cannot write .*too long"):
        write_text(tmp_path / ("a" * 300), "new")
    assert list(tmp_path.iterdir()) == []
