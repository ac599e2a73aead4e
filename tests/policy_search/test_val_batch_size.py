"""How many images a lambda step validates at once: half a batch by default, and a number in a run's files."""

import json
from pathlib import Path
from typing import Any

import pytest
from search_problems import SMALL_SETTINGS, small_data

import hba

SETTINGS: dict[str, Any] = {**SMALL_SETTINGS, "epochs": 1}


def stored(folder: Path) -> Any:
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))["val_batch_size"]


@pytest.mark.parametrize(("batch_size", "expected"), [(7, 3), (2, 2)])
def test_a_run_keeps_the_number(batch_size: int, expected: int, tmp_path: Path) -> None:
    """At least two, which BatchNorm by the batch needs."""
    hba.search(small_data(), out=tmp_path, **{**SETTINGS, "batch_size": batch_size, "val_statistics": "batch"})
    assert stored(tmp_path) == expected


@pytest.mark.parametrize(("earlier", "expected"), [({}, 2), ({"val_batch_size": 3}, 3)])
def test_half_of_an_earlier_run_s_batch_is_half_of_another_one(
    earlier: dict[str, Any], expected: int | None, tmp_path: Path
) -> None:
    hba.search(small_data(), out=tmp_path / "first", **{**SETTINGS, **earlier})
    hba.search(small_data(), out=tmp_path / "second", config=tmp_path / "first", batch_size=4, device="cpu")
    assert stored(tmp_path / "second") == expected
