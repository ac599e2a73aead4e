"""What the commands print in a terminal, beside a progress bar, and when nobody reads it."""

import re
import subprocess
import sys
from pathlib import Path

from commands import SMALL, make_images
from terminals import PROGRAM, Ended, in_a_terminal

import hba
from hba.models import MODELS
from hba.operations import OPERATIONS

SEARCH = ["search", "digits", "--epochs", "3", "--out", "run"]
BAR = re.compile(r"[━╸╺] +\d+%")
IMAGES_LINE = "15 training and 4 validation images of 2 classes"


def assert_bar_and_lines_are_apart(ended: Ended) -> None:
    """A bar was there, and has left nothing behind."""
    assert "━" in ended.written
    assert not [line for line in ended.lines if BAR.search(line)]


def test_a_search_goes_on_where_its_output_is_no_longer_read(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM, *SEARCH], cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=120) == 0
    assert hba.load_policy(tmp_path / "run").epochs == 3


def test_lines_of_a_search_stand_above_its_bar(tmp_path: Path) -> None:
    make_images(tmp_path / "images")
    ended = in_a_terminal(["search", "images", "--out", "run", *SMALL], tmp_path)
    assert ended.exit_code == 0, ended.written
    assert_bar_and_lines_are_apart(ended)
    assert "reading images" in ended.written
    assert "epoch 2/2: train loss" in ended.written
    assert ended.lines[0].startswith(IMAGES_LINE)
    assert ended.lines[-1] == "  hba evaluate run/policy.json"


def test_a_bar_keeps_out_of_a_file_and_lines_out_of_the_bar(tmp_path: Path) -> None:
    make_images(tmp_path / "images")
    log = tmp_path / "log.txt"
    ended = in_a_terminal(["search", "images", "--out", "run", *SMALL], tmp_path, stdout=log)
    assert ended.exit_code == 0, ended.written
    assert "━" in ended.written
    assert ended.lines == []
    lines = log.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith(IMAGES_LINE)
    assert lines[-1] == "  hba evaluate run/policy.json"
    assert not [line for line in lines if BAR.search(line)]


def test_ctrl_c_leaves_no_bar_behind(tmp_path: Path) -> None:
    arguments = [*SEARCH[:2], "--epochs", "5000", "--out", "run"]
    ended = in_a_terminal(arguments, tmp_path, interrupt_at="/5000: train loss")
    assert ended.exit_code == 130, ended.written
    assert_bar_and_lines_are_apart(ended)
    assert ended.lines[0].startswith("200 training and 500 validation images of 10 classes")
    assert ended.lines[-1] == "  hba search --out run --resume"


def test_lines_of_an_evaluation_stand_above_its_bar(tmp_path: Path) -> None:
    make_images(tmp_path / "images")
    arguments = [
        "evaluate",
        "digits",
        "images",
        "--out",
        "run",
        "--seeds",
        "1",
        "--jobs",
        "1",
        *SMALL,
        "--epochs",
        "20",
    ]
    ended = in_a_terminal(arguments, tmp_path)
    assert ended.exit_code == 0, ended.written
    assert_bar_and_lines_are_apart(ended)
    assert "training 2/2 (digits, seed 0: test error" in ended.written
    assert ended.lines[0].startswith("19 training and 5 test images of 2 classes")
    assert ended.lines[-2:] == ["Results: run/results.json", "Report: run/report.html"]


IN_PYTHON = """
import hba

class Printing(hba.SearchCallback):
    def epoch_done(self, metrics):
        print("epoch", metrics["epoch"], "ended")

hba.search("digits", epochs=3, progress=True, callback=Printing())
"""


def test_what_a_program_prints_and_the_notes_stand_above_the_bar_that_it_asked_for(tmp_path: Path) -> None:
    ended = in_a_terminal([], tmp_path, program=IN_PYTHON)
    assert ended.exit_code == 0, ended.written
    assert_bar_and_lines_are_apart(ended)
    assert ended.lines[-3:] == [f"epoch {epoch} ended" for epoch in (1, 2, 3)]
    assert ended.lines[0].startswith("1 policy step is too few: "), "the notes of the plan come first"


TABLES = "from hba.cli import main\nfor command in ('models', 'operations', 'policies'):\n    main([command])\n"


def test_tables_break_no_name_in_80_columns(tmp_path: Path) -> None:
    ended = in_a_terminal([], tmp_path, program=TABLES)
    assert ended.exit_code == 0, ended.written
    words = {word for line in ended.lines for word in re.split(r"[│\s]+", line)}
    assert {*MODELS, *OPERATIONS, *hba.policy_names()} <= words
    assert {"torchvision", "2x3x224x224", "wrn-10-1"} <= words
