"""A time for a search, as it is typed."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
from commands import SMALL, make_images, refusal_of, run
from test_commands import said

import hba

WITHOUT_EPOCHS = SMALL[2:]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_budget_and_what_chooses_the_epochs_otherwise_exclude_each_other(tmp_path: Path) -> None:
    expected = "budget_seconds chooses the number of epochs; omit --epochs, or --budget"
    assert refusal_of("search", "digits", "--budget", "1h", "--epochs", "3") == expected
    make_images(tmp_path / "pets")
    said(run("search", "pets", "--out", "run", *SMALL))
    message = refusal_of("search", "--out", "run", "--resume", "--budget", "1h")
    assert message == "a resumed run keeps its number of epochs; remove --budget"


def test_a_budget_too_small_for_an_epoch_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    make_images(tmp_path / "pets")
    message = refusal_of("search", "pets", "--budget", "0.01s", *WITHOUT_EPOCHS)
    assert message.startswith("--budget must be at least about ")
    assert message.endswith(" s, which a search of one epoch takes here, got 0.01 s")
    assert not (tmp_path / "runs").exists()


def test_the_chosen_epochs_are_the_runs_own_and_repeat_it(tmp_path: Path) -> None:
    make_images(tmp_path / "pets")
    began = time.monotonic()
    lines = said(run("search", "pets", "--budget", "8s", "--out", "run", *WITHOUT_EPOCHS))
    found = hba.load_policy("run")
    note = next(line for line in lines if "fit into" in line)
    assert note.startswith(f"{found.epochs} epoch")
    assert time.monotonic() - began < 60
    stored = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))
    assert stored["epochs"] == found.epochs
    said(run("search", "pets", "--epochs", str(found.epochs), "--out", "again", *WITHOUT_EPOCHS))
    assert (tmp_path / "again" / "config.json").read_bytes() == (tmp_path / "run" / "config.json").read_bytes()
    again = hba.load_policy("again")
    np.testing.assert_array_equal(again.values, found.values)
    np.testing.assert_array_equal(again.spread, found.spread)
