"""hba search at work: what it writes and prints, how it is resumed and repeated, and
how it ends early.
"""

import csv
import json
import re
import shlex
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import SMALL as SMALL_TRAINING, make_images, rows_in, run, said
from own_operations import GAMMA_FILE

import hba
from hba.operations import Operation
from hba.policy_search import timing
from hba.policy_search.config import SearchConfig

FILES = {
    *("policy.json", "config.json", "metrics.csv", "checkpoint.pt", ".lock"),
    *("report.html", "sample_images.png", "native_images.png"),
}
SMALL = (*SMALL_TRAINING[:2], "--space", "hba", *SMALL_TRAINING[2:])
OPTIONS = ("--seed", "3", "--train-steps", "2", "--flip", "--reward-draws", "2")


@pytest.fixture(scope="module")
def finished_search(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The folder of images and of a search on them, and what the search printed."""
    place = tmp_path_factory.mktemp("made")
    make_images(place / "pets")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(place)
        lines = said("search", "pets", "--out", "run", *SMALL, *OPTIONS)
    return place, lines


@pytest.fixture(autouse=True)
def place(
    finished_search: tuple[Path, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """A folder with a copy of both."""
    shutil.copytree(finished_search[0] / "run", tmp_path / "run")
    shutil.copytree(finished_search[0] / "pets", tmp_path / "pets")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def settings(folder: str) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(
        Path(folder, "config.json").read_text(encoding="utf-8")
    )
    return stored


def refusal(*arguments: str) -> str:
    result = run(*arguments)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1), result.output
    return result.stderr


def test_a_search_prints_its_plan_its_epochs_and_what_it_found(
    finished_search: tuple[Path, list[str]],
) -> None:
    place, lines = finished_search
    assert lines[0].startswith(
        "15 training and 4 validation images of 2 classes: cats, dogs; 5 test images"
    )
    assert re.match(
        r"wrn-10-1, [\d,]+ parameters, images of 8x8, on cpu \(1 thread\); in run$",
        lines[1],
    )
    assert lines[2] == "2 epochs, each of 1 step on 8 images; 1 policy step"
    with (place / "run" / "metrics.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    printed = [line for line in lines if line.startswith("epoch ")]
    for line, row in zip(printed, rows, strict=True):
        numbers = (
            f"train loss {float(row['train_loss']):.3f}, validation error"
            f" {float(row['val_error_percent']):.2f} %"
        )
        assert line == f"epoch {row['epoch']}/2: {numbers}"
    assert any("share of images" in line for line in lines)
    assert lines[-2:] == [
        "Next, see whether it helps:",
        "  hba evaluate run/policy.json",
    ]


def test_a_search_writes_its_settings_and_its_schedule(
    finished_search: tuple[Path, list[str]],
) -> None:
    out = finished_search[0] / "run"
    assert {path.name for path in out.iterdir()} == FILES
    config = settings(str(out))
    assert (config["data"], config["seed"], config["flip"]) == (
        str(finished_search[0] / "pets"),
        3,
        True,
    )
    assert SearchConfig.make(config).flat() == config
    origin = hba.load_policy(out).provenance
    assert (origin["class_names"], origin["train_images"], origin["val_images"]) == (
        ["cats", "dogs"],
        15,
        4,
    )
    assert origin["settings"] == config


def test_settings_of_an_earlier_search_find_the_same_schedule() -> None:
    said("search", "--config", "run", "--data-root", "data", "pets", "--device", "cpu")
    assert settings("runs/pets-1") == {
        **settings("run"),
        "data": str(Path("pets").resolve()),
    }
    np.testing.assert_array_equal(
        hba.load_policy("runs/pets-1").values, hba.load_policy("run").values
    )
    for more in (("--preset", "digits"), ("--paper",), ("--resume", "--out", "run")):
        assert more[0][2:] in refusal("search", "--config", "run", *more)


def test_a_finished_search_is_resumed_only_with_its_settings() -> None:
    before = hba.load_policy("run").values
    assert "epochs " in refusal(
        "search", "pets", "--out", "run", "--resume", "--epochs", "4"
    )
    assert "--resume" in refusal("search", "pets", "--out", "run", *SMALL)
    said("search", "pets", "--out", "run", "--resume", *SMALL, *OPTIONS)
    np.testing.assert_array_equal(hba.load_policy("run").values, before)


def test_ctrl_c_ends_a_search_after_its_step_and_the_printed_command_resumes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handler = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patched:
        patched.setattr(
            "hba.cli.search.SearchTerminal.step_done",
            lambda *_: signal.raise_signal(signal.SIGINT),
        )
        result = run("search", "pets", "--out", "stopped", *SMALL, *OPTIONS)
    assert (result.exit_code, result.stderr) == (130, "")
    command = result.stdout.splitlines()[-1]
    assert signal.getsignal(signal.SIGINT) is handler
    assert hba.load_policy("stopped").epochs == 1
    assert Path("stopped/report.html").exists()
    said(*shlex.split(command)[1:])
    np.testing.assert_array_equal(
        hba.load_policy("stopped").values, hba.load_policy("run").values
    )


def test_a_broken_run_is_one_line() -> None:
    for name in ("config.json", "checkpoint.pt"):
        shutil.copytree("run", f"broken {name}")
        Path(f"broken {name}", name).write_bytes(b"broken")
        assert name in refusal("search", "pets", "--out", f"broken {name}", "--resume")
    Path("a file").write_text("mine")
    assert "a file" in refusal("search", "pets", "--out", "a file", *SMALL)


def test_a_budget_chooses_the_epochs_and_the_run_keeps_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However fast the machine is, two epochs fit."""
    with monkeypatch.context() as patched:
        patched.setattr(timing, "bisect_right", lambda *_, key: 2)
        patched.setattr(timing, "MOST_MEASURED_SECONDS", 0.1)
        said("search", "pets", "--budget", "1h", "--out", "timed", *SMALL[2:])
    assert settings("timed")["epochs"] == hba.load_policy("timed").epochs == 2
    assert "budget" in refusal("search", "--out", "timed", "--resume", "--budget", "2h")
    assert "budget" in refusal("search", "pets", "--budget", "0.01s", *SMALL[2:])
    assert not Path("runs").exists()


def test_searches_with_several_seeds_are_compared_and_resumed() -> None:
    words = (
        "search",
        "pets",
        *SMALL,
        "--epochs",
        "1",
        "--seeds",
        "2",
        "--out",
        "several",
    )
    lines = said(*words)
    assert [line.partition(":")[0] for line in lines if line.startswith("seed ")] == [
        "seed 0",
        "seed 1",
    ]
    assert "  hba evaluate several/seed-0 --against none,several/seed-1" in lines
    assert "--resume" in refusal(*words)
    found_before = Path("several/seed-1/policy.json").read_bytes()
    said("search", "--out", "several", "--resume")
    assert Path("several/seed-1/policy.json").read_bytes() == found_before
    shown = json.loads(run("show", "several", "--json").stdout)
    assert shown["seeds"] == [0, 1]
    assert len(shown["operations"][0]["probability"]["each"]) == 2
    assert "moved by" in run("show", "several").stdout
    for command in (
        ("report", "several"),
        ("search", "--config", "several"),
        ("evaluate", "several"),
    ):
        assert "several/seed-0" in refusal(*command)


def test_a_few_broken_images_are_left_out() -> None:
    for number in range(5):
        Path(f"pets/dogs/{number}.png").write_bytes(b"no image")
    assert "--skip-broken" in refusal(
        "search", "pets", "--out", "new", "--no-skip-broken", *SMALL
    )
    lines = said("search", "pets", "--out", "new", *SMALL)
    n_broken = hba.load_policy("new").provenance["skipped_images"]
    assert 1 <= n_broken <= 5
    assert f"{n_broken} files left out: new/left_out.csv" in lines[0]


def test_prepared_images_are_searched() -> None:
    lines = said("prepare", "pets", "--out", "pets.hba", "--image-size", "8")
    assert lines[0].startswith(
        "Prepared: 24 images in train; 2 classes: cats, dogs; 8 pixels"
    )
    said("search", "pets.hba", *SMALL[:-4], "--device", "cpu", "--out", "new")
    assert settings("new")["data"] == str(Path("pets.hba").resolve())


def test_operations_of_your_own_come_from_a_file(
    registered: dict[str, Operation],
) -> None:
    operations_file = ("--operations-file", "mine.py")
    Path("mine.py").write_text(GAMMA_FILE)
    lines = said(
        "search",
        "pets",
        *operations_file,
        "--operations",
        "Rotate,Power",
        "--out",
        "own",
        *SMALL,
        "--epochs",
        "1",
    )
    assert lines[-1] == "  hba evaluate own/policy.json --operations-file mine.py"
    content = json.loads(Path("own/policy.json").read_text(encoding="utf-8"))["space"][
        "operations"
    ]
    assert [row["name"] for row in content] == ["Rotate", "Power"]
    registered.clear()
    for command in (
        "show own",
        "apply own pets/cats/0.png --out b.png",
        "evaluate own --seeds 1",
    ):
        assert "--operations-file" in refusal(*command.split())
        registered.clear()
    assert "Power" in refusal("search", "pets", "--operations", "Power", *SMALL)
    assert any(
        row[0] == "Power" for row in rows_in(said("show", "own", *operations_file))
    )
    said("search", "--out", "own", "--resume", *operations_file)
