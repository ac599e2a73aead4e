"""A search says at its end where its network did not overfit, and says nothing where it did."""

from pathlib import Path
from typing import Any

import pytest
from search_problems import SMALL_SETTINGS, small_data

import hba
from hba.algorithms.update_schedule import overfitting_note


@pytest.mark.parametrize(
    ("data", "settings", "is_told"),
    [
        # One epoch of two steps, in which nothing is learnt.
        ("digits", {"epochs": 1, "device": "cpu"}, True),
        # Noise, which can only be learnt by heart.
        (None, {**SMALL_SETTINGS, "epochs": 40, "learning_rate": 0.1}, False),
    ],
    ids=["too short", "by heart"],
)
def test_the_end_of_a_search_decides(data: str | None, settings: dict[str, Any], is_told: bool, tmp_path: Path) -> None:
    result = hba.search(data or small_data(), out=tmp_path, **settings)
    assert result.schedule is not None
    last: dict[str, Any] = dict(result.metrics[-1])
    n_classes = 10 if data else 2
    note = overfitting_note(
        last["train_loss"], last["train_error_percent"], last["val_loss"], n_classes, settings["epochs"]
    )
    assert (note is not None) == is_told, last
    assert [one for one in result.notes if "overfit" in one] == ([note] if note else [])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert ("s network does not overfit: in epoch" in page) == is_told
    assert result.schedule.provenance["train_loss"] == last["train_loss"]
