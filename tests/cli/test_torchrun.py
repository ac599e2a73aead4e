"""`torchrun -m hba search`: several processes make one run, which any number of them goes on with."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import run
from hba.cli.main import _show_warning
from hba.cli.terminal import run_folder

from hba.distributed.collectives import LAUNCH, RESTARTS, note_launch
from hba.distributed.process_info import ProcessInfo, override_rank
from hba.errors import ReportWarning

SEARCH = ("search", "digits", "--image-size", "8", "--device", "cpu")


def begun(*arguments: str | Path, of: Path, restarts: int = 0) -> subprocess.Popen[str]:
    """Two processes that torchrun has started. of: where they are."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", str(restarts)]
    environment = {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    return subprocess.Popen(
        [sys.executable, *launcher, "-m", "hba", *map(str, arguments)],
        cwd=of,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, errors = process.communicate(timeout=280)
    return process.returncode, out, errors


def wait_for(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 200
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.1)


def values(folder: Path) -> list[list[float]]:
    found: list[list[float]] = json.loads((folder / "policy.json").read_text(encoding="utf-8"))["values"]
    return found


def rows_of(folder: Path) -> int:
    metrics = folder / "metrics.csv"
    return len(metrics.read_text(encoding="utf-8").splitlines()) if metrics.exists() else 0


def test_two_processes_make_one_run(tmp_path: Path) -> None:
    code, out, errors = ended(begun(*SEARCH, "--epochs", "3", "--train-steps", "2", of=tmp_path))
    assert code == 0, errors
    assert out.count("on cpu (1 thread), shared by 2 processes; in runs/digits-1") == 1
    assert out.count("Schedule: runs/digits-1/policy.json") == 1
    folder = tmp_path / "runs" / "digits-1"
    assert len(values(folder)) == 3
    assert json.loads((folder / "policy.json").read_text(encoding="utf-8"))["provenance"]["n_processes"] == 2
    assert (folder / "report.html").exists()
    # One process goes on with what two have begun.
    before = values(folder)
    resumed = run("search", "--out", str(folder), "--resume", "--epochs", "4")
    assert "4 epochs (3 done)" in resumed.output
    assert values(folder)[:3] == before
    assert len(values(folder)) == 4


@pytest.mark.slow
def test_two_processes_make_one_evaluation(tmp_path: Path) -> None:
    small = ("--epochs", "2", "--image-size", "8", "--model", "wrn-10-1", "--device", "cpu")
    arguments = ("evaluate", "digits", *small, "--against", "none,trivialaugment", "--out", "compared")
    code, out, errors = ended(begun(*arguments, "--seeds", "1", of=tmp_path))
    assert code == 0, errors
    assert out.count("trivialaugment, seed 0: test error") == 1
    found = json.loads((tmp_path / "compared" / "results.json").read_text(encoding="utf-8"))
    assert [row["seeds"] for row in found["rows"]] == [[0]] * 3
    assert (found["n_processes"], found["jobs"]) == (2, 1)
    # One process goes on with what two have begun.
    resumed = run(*arguments[:-1], str(tmp_path / "compared"), "--seeds", "2", "--resume", "--jobs", "1")
    assert resumed.exit_code == 0, resumed.output
    found = json.loads((tmp_path / "compared" / "results.json").read_text(encoding="utf-8"))
    assert [row["seeds"] for row in found["rows"]] == [[0, 1]] * 3
    code, _, errors = ended(begun(*arguments, "--seeds", "3", "--resume", "--jobs", "2", of=tmp_path))
    assert code != 0
    assert "--jobs must be 1 where 2 processes share one training after the other, got 2" in errors


def test_a_mistake_of_all_is_told_once(tmp_path: Path) -> None:
    code, _, errors = ended(begun(*SEARCH, "--batch-size", "7", of=tmp_path))
    assert code != 0
    assert errors.count("hba: error: a batch must be a multiple of the 2 processes, got 7") == 1
    assert "process 1:" not in errors
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", ["export", "search-text", "show"])
def test_other_commands_are_of_one_process(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for word, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}.items():
        monkeypatch.setenv(word, value)
    result = run(name, "digits")
    assert result.exit_code == 2
    assert f"what hba {name} does is made by one process, got 2; start one, without torchrun" in result.output


def of_several(monkeypatch: pytest.MonkeyPatch, rank: int) -> None:
    for word, value in {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}.items():
        monkeypatch.setenv(word, value)


@pytest.mark.parametrize("name", ["models", "operations", "policies", "presets"])
def test_what_only_prints_may_be_asked_by_a_script_that_torchrun_has_started(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = run(name)
    of_several(monkeypatch, rank=1)
    assert run(name).output == alone.output
    assert alone.exit_code == 0


def test_a_word_that_no_command_knows_and_explanations_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    told: list[list[str]] = []
    for rank in (0, 1):
        of_several(monkeypatch, rank)
        found = [run("search", "--epoch", "3"), run("evaluate", "digits", "--explain"), run("search", "a", "b")]
        assert [one.exit_code for one in found] == [2, 0, 2]
        told.append([one.output for one in found])
    assert all(told[0])
    assert told[1] == ["", "", ""]
    # torchrun would end the first before it has spoken.
    assert slept == [10.0, 10.0]


def test_a_warning_is_told_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in (0, 1):
        of_several(monkeypatch, rank)
        _show_warning("the report cannot be written", ReportWarning)
    assert capsys.readouterr().err == "hba: warning: the report cannot be written\n"


def test_a_run_without_a_name_goes_on_in_the_folder_of_its_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for launch in ("first", "second"):
        monkeypatch.setenv(LAUNCH, launch)
        with override_rank(ProcessInfo(0, 2)), monkeypatch.context() as patched:
            patched.setattr("hba.distributed.collectives.broadcast_from_rank0", lambda make: make())
            for restarts in (0, 1):
                monkeypatch.setenv(RESTARTS, str(restarts))
                with run_folder(None, "digits") as folder:
                    note_launch(folder)
                    assert folder == Path("runs", f"digits-{1 if launch == 'first' else 2}")
    # Another launch of the same name is no restart.
    monkeypatch.setenv(RESTARTS, "0")
    with override_rank(ProcessInfo(0, 2)), monkeypatch.context() as patched:
        patched.setattr("hba.distributed.collectives.broadcast_from_rank0", lambda make: make())
        with run_folder(None, "digits") as folder:
            assert folder == Path("runs/digits-3")


@pytest.mark.slow
def test_a_process_that_is_killed_is_started_again_and_finds_the_same(tmp_path: Path) -> None:
    arguments = (*SEARCH, "--epochs", "60")
    undisturbed = begun(*arguments, "--out", "undisturbed", of=tmp_path)
    assert ended(undisturbed)[0] == 0
    killed = begun(*arguments, "--out", "killed", of=tmp_path, restarts=1)
    wait_for(lambda: rows_of(tmp_path / "killed") > 5)
    os.kill(_process_of(killed.pid, rank=1), signal.SIGKILL)
    code, out, errors = ended(killed)
    assert code == 0, errors
    assert " done), each of" in out
    assert values(tmp_path / "killed") == values(tmp_path / "undisturbed")


@pytest.mark.slow
def test_a_search_that_is_to_stop_is_saved_and_resumed(tmp_path: Path) -> None:
    arguments = (*SEARCH, "--epochs", "60", "--out", "stopped")
    stopped = begun(*arguments, of=tmp_path)
    wait_for(lambda: rows_of(tmp_path / "stopped") > 3)
    stopped.send_signal(signal.SIGTERM)
    _, out, _ = ended(stopped)
    assert "resume with:" in out
    n_epochs = len(values(tmp_path / "stopped"))
    assert 3 <= n_epochs < 60
    before = values(tmp_path / "stopped")
    assert ended(begun("search", "--out", "stopped", "--resume", of=tmp_path))[0] == 0
    assert values(tmp_path / "stopped")[:n_epochs] == before
    assert len(values(tmp_path / "stopped")) == 60


def _process_of(launcher: int, rank: int) -> int:
    """Among the launcher's children."""
    for folder in Path("/proc").iterdir():
        is_child = folder.name.isdigit() and _parent(folder) == launcher
        if is_child and f"RANK={rank}" in (folder / "environ").read_text(encoding="utf-8").split("\0"):
            return int(folder.name)
    raise AssertionError("no such process")


def _parent(process: Path) -> int | None:
    try:
        return int((process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    except OSError:
        return None
