"""`hba report` and `hba compare`, and what a search and an evaluation say of their report."""

import errno
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import SMALL, make_images, refusal_of, run
from report_pages import check_page
from test_commands import said

SHORT = ("--epochs", "1", *SMALL[2:])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("reports")
    make_images(place / "images")
    lines = said(run("search", str(place / "images"), "--out", str(place / "run"), *SHORT))
    assert f"Report: {place / 'run' / 'report.html'}" in lines
    return place


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)


def test_a_report_is_made_again(place: Path) -> None:
    before = (place / "run" / "report.html").read_text(encoding="utf-8")
    (place / "run" / "report.html").unlink()
    assert said(run("report", "run")) == ["Report: run/report.html"]
    after = (place / "run" / "report.html").read_text(encoding="utf-8")
    check_page(after)
    assert after.replace(str(place / "run"), "run") == before.replace(str(place / "run"), "run")


def test_an_evaluation_says_where_its_report_is(place: Path) -> None:
    lines = said(run("evaluate", "run", "--seeds", "1", "--jobs", "1", "--out", "evaluated"))
    assert lines[-2:] == ["Results: evaluated/results.json", "Report: evaluated/report.html"]
    page = check_page((place / "evaluated" / "report.html").read_text(encoding="utf-8"))
    assert "hba evaluate evaluated/schedule.json" in page.text


def test_runs_are_compared_on_the_terminal(place: Path) -> None:
    said(run("search", "images", "--out", "other", "--seed", "1", *SHORT))
    lines = said(run("compare", "run", "other"))
    assert "│ seed │ 0   │ 1     │" in lines
    assert {"Settings that differ", "Validation of the search network", "Schedules in their last epoch"} <= {*lines}


def test_what_is_no_run_is_refused_in_one_line() -> None:
    said_of = "images must be the folder of a search or an evaluation, but it has neither policy.json nor results.json"
    assert refusal_of("report", "images") == said_of
    assert refusal_of("compare", "run", "images") == said_of


def test_a_report_that_cannot_be_written_is_one_line_of_warning(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_file = Path.open

    def refuse(path: Path, mode: str = "r", **further: Any) -> Any:
        if "w" in mode and "report.html" in path.name:
            raise OSError(errno.ENOSPC, "No space left on device")
        return open_file(path, mode, **further)

    monkeypatch.setattr(Path, "open", refuse)
    done = run("search", "images", "--out", "full", *SHORT)
    assert done.exit_code == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        "hba: warning: no report was written: cannot write full/report.html: No space left on device;"
    )
    assert "Schedule: full/policy.json" in done.stdout
    assert "Report:" not in done.stdout


def test_tensorboard_events_stand_beside_the_run(place: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs pip install '.[tensorboard]'")
    said(run("search", "images", "--out", "logged", "--tensorboard", *SHORT))
    assert [file.name.split(".")[0] for file in (place / "logged" / "tensorboard").iterdir()] == ["events"]


def test_tensorboard_events_of_an_evaluation_stand_beside_its_results(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard", reason="needs pip install '.[tensorboard]'")
    words = (
        "evaluate",
        "digits",
        "--epochs",
        "1",
        "--train-size",
        "100",
        "--seeds",
        "1",
        "--jobs",
        "1",
        "--tensorboard",
    )
    said(run(*words, "--out", "measured"))
    folders = (place / "measured" / "tensorboard").iterdir()
    assert {folder.name for folder in folders} == {"digits, seed 0", "none, seed 0"}
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    refused = run(*words)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == (
        "hba: error: writing TensorBoard events needs tensorboard: pip install 'hba-augment[tensorboard]'\n"
    )
    assert not (place / "runs").exists()
