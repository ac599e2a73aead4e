"""Two runs never share a folder, and a killed one claims nothing."""

import multiprocessing
import os
import signal
import stat
from collections.abc import Callable
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from hba.errors import RunError
from hba.utils.files import LOCK_NAME, run_lock


def test_a_second_claim_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    with run_lock(tmp_path):
        with pytest.raises(RunError, match=f"another search or evaluation is at work in {tmp_path}; wait"):
            run_lock(tmp_path).__enter__()
        with run_lock(tmp_path / "other"):
            pass
    with run_lock(tmp_path):
        pass


def test_it_leaves_no_empty_folder_behind(tmp_path: Path) -> None:
    out = tmp_path / "runs" / "a"
    with run_lock(out):
        assert (out / LOCK_NAME).exists()
    assert not out.exists()
    out.mkdir(parents=True)
    with run_lock(out):
        pass
    assert list(out.iterdir()) == [], "who made the folder can remove it"
    with run_lock(out):
        (out / "found").touch()
    assert {path.name for path in out.iterdir()} == {"found", LOCK_NAME}


def test_it_is_given_up_by_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), run_lock(tmp_path):
        raise KeyboardInterrupt
    with run_lock(tmp_path):
        pass


def hold(folder: Path, has_claimed: Event) -> None:
    with run_lock(folder):
        has_claimed.set()
        signal.pause()


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_another_process_is_kept_out_and_a_killed_one_is_not_waited_for(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    has_claimed = context.Event()
    process = context.Process(target=hold, args=(tmp_path, has_claimed))
    process.start()
    assert has_claimed.wait(60)
    with pytest.raises(RunError, match="at work"):
        run_lock(tmp_path).__enter__()
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    assert (tmp_path / LOCK_NAME).exists()
    with run_lock(tmp_path):
        pass


def blocked_by_a_file(place: Path) -> Path:
    place.write_text("")
    return place / "run"


def read_only(place: Path) -> Path:
    place.mkdir()
    place.chmod(stat.S_IREAD | stat.S_IEXEC)
    if os.access(place, os.W_OK):
        pytest.skip("this user may write anywhere")
    return place


@pytest.mark.parametrize("make", [blocked_by_a_file, read_only])
def test_a_folder_that_cannot_be_written_is_one_line(make: Callable[[Path], Path], tmp_path: Path) -> None:
    out = make(tmp_path / "place")
    with pytest.raises(RunError, match=f"cannot write into {out}: .*; choose another --out"):
        run_lock(out).__enter__()


def test_no_folder_is_no_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with run_lock(None), run_lock(None):
        assert list(tmp_path.iterdir()) == []
