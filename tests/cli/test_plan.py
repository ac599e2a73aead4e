"""What `hba search` says before it begins, how long it will take, and its lines on the way."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import SMALL, make_images, refusal_of, run
from hba.cli.plan import Estimate, plan_lines
from hba.cli.search import _Terminal
from hba.cli.wording import class_words, minutes_words
from test_commands import said

import hba

PLAN = hba.SearchPlan(
    data="/data/pets", class_names=("cats", "dogs"), train_images=1307, val_images=77, test_images=96,
    left_out=0, model="wrn-16-2", n_parameters=691_674, device="cpu", threads=2, image_size=32, epochs=200,
    epochs_done=0, steps_per_epoch=10, batch_size=128, policy_steps=500, first_policy_step=4, train_steps=4,
    round_cost=4.0, probes=9, folder=Path("runs/pets-1"), notes=(),
)  # fmt: skip


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_plan_names_images_network_device_length_and_place() -> None:
    assert plan_lines(PLAN) == [
        "1,307 training and 77 validation images of 2 classes: cats, dogs; 96 test images are kept for hba evaluate",
        "wrn-16-2, 691,674 parameters, images of 32x32, on cpu (2 threads); in runs/pets-1",
        "200 epochs, each of 10 steps on 128 images; 500 policy steps, 9 probes",
    ]


@pytest.mark.parametrize(
    ("changed", "number", "expected"),
    [
        ({"test_images": 0}, 0, "cats, dogs; the test images of /data/pets are kept for hba evaluate, unopened"),
        (
            {"test_images": 0, "data": "cifar10"},
            0,
            "cats, dogs; the test images of cifar10 are kept for hba evaluate, unopened",
        ),
        ({"test_images": None}, 0, "2 classes: cats, dogs"),
        ({"left_out": 2}, 0, "hba evaluate; 2 files left out: runs/pets-1/left_out.csv"),
        ({"device": "cuda:1", "folder": None}, 1, "images of 32x32, on cuda:1"),
        ({"threads": 1, "folder": None}, 1, "on cpu (1 thread)"),
        ({"steps_per_epoch": 1, "policy_steps": 1, "probes": 1}, 2, "of 1 step on 128 images; 1 policy step, 1 probe"),
        ({"probes": 0}, 2, "; 500 policy steps"),
        ({"notes": ("First.", "Second.")}, 4, "Second."),
    ],
)
def test_the_plan_says_what_differs(changed: dict[str, Any], number: int, expected: str) -> None:
    assert plan_lines(replace(PLAN, **changed))[number].endswith(expected)


def test_a_resumed_search_says_how_much_is_done() -> None:
    assert plan_lines(replace(PLAN, epochs_done=50))[2].startswith("200 epochs (50 done), each of 10 steps")


def test_many_classes_are_not_all_named() -> None:
    assert class_words([str(number) for number in range(10)]) == "10 classes: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9"
    assert class_words([str(number) for number in range(100)]) == "100 classes: 0, 1, 2 and 97 more"
    long = class_words(["x" * 1000, "y" * 1000])
    assert len(long) < 300
    assert long.endswith("...")


def test_the_test_part_that_a_folder_brings_is_named(tmp_path: Path) -> None:
    make_images(tmp_path / "pets" / "train")
    make_images(tmp_path / "pets" / "test", 3)
    lines = said(run("search", "pets", "--out", "run", *SMALL))
    assert lines[0].endswith(
        f"2 classes: cats, dogs; the test images of {tmp_path}/pets are kept for hba evaluate, unopened"
    )


class Clock:
    """Every step of training takes a second, the policy step behind every fourth four more."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("first", "begun"), [(4, 0), (44, 41)])
def test_the_minutes_to_go_are_said_once_from_whole_rounds(first: int, begun: int) -> None:
    """A round of four steps takes 8 s, 2 s a step; the first steps take long, because all is new."""
    clock = Clock()
    estimate = Estimate(clock)
    estimate.begin(replace(PLAN, first_policy_step=first))
    told = {}
    for step in range(begun + 1, 2001):
        clock.now += 100 if step < first else 1 if step % 4 else 5
        if words := estimate.step_done(step):
            told[step] = words
    assert told == {first + 4: f"About {(2000 - first - 4) * 2 / 60:.0f} minutes to go."}


@pytest.mark.parametrize(("begun", "minutes"), [(0, 50), (400, 43)])
def test_in_the_warm_up_the_policy_steps_to_come_are_counted(begun: int, minutes: int) -> None:
    """Of 2,000 steps the first 1,000 have no policy step; 250 rounds follow, each with four steps' worth of them."""
    clock = Clock()
    estimate = Estimate(clock)
    estimate.begin(replace(PLAN, first_policy_step=1004))
    told = {}
    for step in range(begun + 1, 2001):
        clock.now += 100 if step < begun + 5 else 1 if step < 1004 or step % 4 else 5
        if words := estimate.step_done(step):
            told[step] = words
            told_at = clock.now
    assert told == {begun + 10: f"About {minutes} minutes to go."}
    assert clock.now - told_at == 1990 - begun + 250 * 4 == pytest.approx(60 * minutes, abs=30)


@pytest.mark.parametrize(("round_cost", "after"), [(None, 108), (4.0, 10)])
def test_where_nobody_knows_what_policy_steps_cost_rounds_are_timed(round_cost: float | None, after: int) -> None:
    clock = Clock()
    estimate = Estimate(clock)
    estimate.begin(replace(PLAN, first_policy_step=104, round_cost=round_cost))
    told = []
    for step in range(1, 2001):
        clock.now += 1 if step < 104 or step % 4 else 5
        told += [step] if estimate.step_done(step) else []
    assert told == [after]


def test_a_warm_up_too_short_to_be_timed_is_not_part_of_the_rounds() -> None:
    clock = Clock()
    estimate = Estimate(clock)
    estimate.begin(replace(PLAN, first_policy_step=8, round_cost=100.0))
    told = {}
    for step in range(1, 2001):
        clock.now += 0.5 if step < 8 else 1 if step % 4 else 5
        if words := estimate.step_done(step):
            told[step] = words
    assert told == {12: f"About {1988 * 2 / 60:.0f} minutes to go."}


def test_slow_rounds_are_timed_whole() -> None:
    clock = Clock()
    estimate = Estimate(clock)
    estimate.begin(PLAN)
    for step in range(1, 9):
        clock.now += 10 if step % 4 else 60
        words = estimate.step_done(step)
        assert (words is None) == (step < 8)
    assert words == f"About {1992 * 22.5 / 3600:.1f} hours to go."


def test_a_search_that_is_over_before_it_can_be_timed_says_nothing() -> None:
    clock = Clock()
    estimate = Estimate(clock)
    assert estimate.step_done(1) is None
    estimate.begin(replace(PLAN, epochs=1))
    for step in range(1, 11):
        clock.now += 0.1
        assert estimate.step_done(step) is None


@pytest.mark.parametrize(
    ("minutes", "words"),
    [(0.2, "Less than a minute"), (1.2, "About a minute"), (12.4, "About 12 minutes"), (119.0, "About 119 minutes"),
     (150.0, "About 2.5 hours")],
)  # fmt: skip
def test_minutes_in_words(minutes: float, words: str) -> None:
    assert minutes_words(minutes) == words


@pytest.mark.parametrize("visible", [False, True])
def test_every_line_and_the_bar_have_the_validation_error_as_last_measured(
    visible: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = _Terminal()
    described: list[str] = []
    monkeypatch.setattr(terminal.bar, "visible", visible)
    monkeypatch.setattr(terminal.bar, "describe", described.append)
    terminal.n_epochs = 3
    for epoch, error in ((1, 62.5), (2, None), (3, 40.0)):
        terminal.epoch_done({"epoch": epoch, "train_loss": 1.5, "lambda_loss": 2.5, "val_error_percent": error})
    assert (described if visible else capsys.readouterr().out.splitlines()) == [
        "epoch 1/3: train loss 1.500, validation error 62.50 % (epoch 1)",
        "epoch 2/3: train loss 1.500, validation error 62.50 % (epoch 1)",
        "epoch 3/3: train loss 1.500, validation error 40.00 % (epoch 3)",
    ]


def test_a_folder_that_is_only_a_split_is_named_with_the_one_around_it(tmp_path: Path) -> None:
    make_images(tmp_path / "mydata" / "train")
    said(run("search", "mydata/train", *SMALL))
    page = (tmp_path / "runs" / "mydata-train-1" / "report.html").read_text(encoding="utf-8")
    assert "<h1>Augmentation schedule for mydata/train</h1>" in page


def test_a_run_that_was_moved_with_its_images_goes_on_when_told_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_images(tmp_path / "old" / "mydata")
    monkeypatch.chdir(tmp_path / "old")
    said(run("search", "mydata", "--out", "whole", *SMALL))
    with monkeypatch.context() as patch:
        patch.setattr("hba.cli.search._Terminal.stop_requested", lambda terminal: terminal.stop)
        patch.setattr("hba.cli.search._Terminal.step_done", lambda terminal, step: setattr(terminal, "stop", True))
        assert run("search", "mydata", "--out", "s2", *SMALL).exit_code == 130
    shutil.move(tmp_path / "old", tmp_path / "new")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    message = refusal_of("search", "--out", "../new/s2", "--resume")
    assert message == (
        f"the images of ../new/s2 are no longer in {tmp_path}/old/mydata; name the folder where they are now, as in "
        "hba search DIR --out ../new/s2 --resume, or give them again where they were in memory"
    )
    lines = said(run("search", "../new/mydata", "--out", "../new/s2", "--resume"))
    assert lines[2].startswith("2 epochs (1 done), ")
    found, whole = (hba.load_policy(tmp_path / "new" / name) for name in ("s2", "whole"))
    np.testing.assert_array_equal(found.values, whole.values)
    assert json.loads((tmp_path / "new/s2/config.json").read_text())["data"] == str(tmp_path / "new/mydata")
    said(run("evaluate", "../new/s2", "--seeds", "1", "--out", "evaluated"))


def test_a_finished_search_is_given_more_epochs_and_says_what_that_means(tmp_path: Path) -> None:
    make_images(tmp_path / "pets")
    said(run("search", "pets", "--out", "run", *SMALL))
    before = hba.load_policy("run").values
    lines = said(run("search", "--out", "run", "--resume", "--epochs", "4"))
    assert lines[2].startswith("4 epochs (2 done), ")
    assert re.fullmatch(
        r"Lengthened from 2 to 4 epochs after 2: from here on the learning rate is that of 4 epochs \(0 -> 0\.025\), "
        r"so the schedule is not the one that so many epochs find from the beginning\.",
        lines[4],
    )
    assert [line.split(":")[0] for line in lines if line.startswith("epoch ")] == ["epoch 3/4", "epoch 4/4"]
    longer = hba.load_policy("run")
    assert longer.epochs == 4
    np.testing.assert_array_equal(longer.values[:2], before)
    assert refusal_of("search", "--out", "run", "--resume", "--epochs", "3") == (
        "a resumed run can get more epochs, not fewer; run has 4 (given 3)"
    )
