"""How many images a lambda step validates at once: half a batch by default, and a number in a run's files."""

import json
from pathlib import Path
from typing import Any

import pytest
from search_problems import SMALL_SETTINGS, small_data

import hba
from hba.algorithms import Lookahead
from hba.errors import SettingsError
from hba.policy_search.seeds import repeated_search

SETTINGS: dict[str, Any] = {**SMALL_SETTINGS, "epochs": 1}


def stored(folder: Path) -> Any:
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))["val_batch_size"]


@pytest.mark.parametrize(("batch_size", "expected"), [(8, 4), (7, 3), (3, 2), (2, 2)])
def test_a_run_keeps_the_number(batch_size: int, expected: int, tmp_path: Path) -> None:
    """At least two, which BatchNorm by the batch needs."""
    hba.search(small_data(), out=tmp_path, **{**SETTINGS, "batch_size": batch_size, "val_statistics": "batch"})
    assert stored(tmp_path) == expected


@pytest.mark.parametrize("given", ["half", 4])
def test_a_run_goes_on_with_the_word_or_with_what_it_stood_for(given: str | int, tmp_path: Path) -> None:
    settings = {**SETTINGS, "val_batch_size": "half"}
    hba.search(small_data(), out=tmp_path, **settings)
    again = {**settings, "val_batch_size": given, "epochs": 2}
    assert hba.search(small_data(), out=tmp_path, resume=True, **again).finished
    with pytest.raises(SettingsError, match=r"val_batch_size 4 \(given 3\)$"):
        hba.search(small_data(), out=tmp_path, resume=True, **{**settings, "val_batch_size": 3})


def test_repeated_searches_take_an_algorithm_with_the_word(tmp_path: Path) -> None:
    settings = {name: value for name, value in SETTINGS.items() if name != "train_steps"}
    algorithm = Lookahead(val_batch_size="half", train_steps=2)
    repeated_search(small_data(), out=tmp_path, seeds=2, algorithm=algorithm, **settings)
    assert [stored(tmp_path / f"seed-{seed}") for seed in (0, 1)] == [4, 4]


@pytest.mark.parametrize(
    ("earlier", "expected"), [({}, 2), ({"val_batch_size": 3}, 3), ({"val_batch_size": None}, None)]
)
def test_half_of_an_earlier_run_s_batch_is_half_of_another_one(
    earlier: dict[str, Any], expected: int | None, tmp_path: Path
) -> None:
    hba.search(small_data(), out=tmp_path / "first", **{**SETTINGS, **earlier})
    hba.search(small_data(), out=tmp_path / "second", config=tmp_path / "first", batch_size=4, device="cpu")
    assert stored(tmp_path / "second") == expected


@pytest.mark.parametrize("given", [0, "halff", 2.5])
def test_a_refusal_says_all_that_it_may_be(given: Any) -> None:
    with pytest.raises(SettingsError, match=rf"^val_batch_size must be .* or 'half', got {given!r}"):
        hba.search(small_data(), **{**SETTINGS, "val_batch_size": given})
