"""A search that Ctrl-C ends: its report, and a second Ctrl-C."""

import signal
from pathlib import Path

import numpy as np
import pytest
from commands import SMALL, make_images, run
from test_commands import said

import hba


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return str(make_images(tmp_path / "images"))


def test_a_search_that_ctrl_c_ends_has_a_report(images: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hba.cli.search._Terminal.step_done", lambda *_: signal.raise_signal(signal.SIGINT))
    result = run("search", images, "--out", "run", *SMALL, "--train-steps", "2")
    assert (result.exit_code, result.stderr) == (130, "")
    assert "Report: run/report.html" in result.stdout.splitlines()
    assert "It stopped after 1 of 2 epochs." in Path("run/report.html").read_text(encoding="utf-8")


def test_ctrl_c_before_the_first_epoch_is_over_leaves_nothing_to_report(
    images: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hba.cli.search._Terminal.step_done", lambda *_: signal.raise_signal(signal.SIGINT))
    result = run("search", images, "--out", "run", *SMALL, "--batch-size", "4")
    assert (result.exit_code, result.stderr) == (130, "")
    assert not Path("run/report.html").exists()


def test_a_second_ctrl_c_ends_the_report_and_loses_nothing(images: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("search", images, "--out", "run", "--seed", "3", *SMALL, "--train-steps", "2")
    with monkeypatch.context() as patch:
        patch.setattr("hba.cli.search._Terminal.step_done", lambda *_: signal.raise_signal(signal.SIGINT))
        patch.setattr("hba.report.page.page_of", lambda *_: signal.raise_signal(signal.SIGINT))
        result = run(*words)
    assert (result.exit_code, result.stderr.strip()) == (130, "stopped")
    assert hba.load_policy("run").epochs == 1
    assert [path.name for path in Path("run").iterdir() if "report" in path.name or ".part" in path.name] == []
    said(run("search", "--out", "run", "--resume"))
    said(run(*words[:2], "--out", "undisturbed", *words[4:]))
    np.testing.assert_array_equal(hba.load_policy("run").values, hba.load_policy("undisturbed").values)
