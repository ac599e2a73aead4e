"""A checkpoint that is broken at any place: the run goes on from the one before, and finds the same."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from search_problems import SMALL_SETTINGS, StopAfter, small_data

import hba
from hba.errors import RunError
from hba.policy_search import checkpoint

N_PLACES = 3
SETTINGS: dict[str, Any] = {**SMALL_SETTINGS, "epochs": 6}


@pytest.fixture(autouse=True)
def saves_each_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "SAVE_EVERY_SECONDS", 0.0)


def interrupted(out: Path) -> bytes:
    """A run that stopped amid the fifth of six epochs, with two checkpoints; the last one's content."""
    result = hba.search(small_data(), out=out, callback=StopAfter(13), **SETTINGS)
    assert len(result.metrics) == 4
    assert (out / "checkpoint_before.pt").exists()
    return (out / "checkpoint.pt").read_bytes()


def resumed(out: Path) -> hba.SearchResult:
    return hba.search(small_data(), out=out, resume=True)


def cut(content: bytes, place: int) -> bytes:
    return content[:place]


def with_a_wrong_byte(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]


@pytest.mark.parametrize("damage", [cut, with_a_wrong_byte])
def test_a_broken_checkpoint_costs_what_came_after_the_one_before(
    damage: Callable[[bytes, int], bytes], tmp_path: Path
) -> None:
    expected = hba.search(small_data(), **SETTINGS).schedule
    content = interrupted(tmp_path)
    before = (tmp_path / "checkpoint_before.pt").read_bytes()
    places = random.Random(0)
    n_taken_before = 0
    for _ in range(N_PLACES):
        broken = damage(content, places.randrange(len(content)))
        (tmp_path / "checkpoint.pt").write_bytes(broken)
        (tmp_path / "checkpoint_before.pt").write_bytes(before)
        result = resumed(tmp_path)
        assert result.schedule is not None
        assert expected is not None
        assert (result.schedule.values == expected.values).all()
        notes = [note for note in result.notes if "cannot be read" in note]
        if notes:
            n_taken_before += 1
            assert notes[0].startswith(f"{tmp_path / 'checkpoint.pt'} cannot be read (")
            assert notes[0].endswith("resumed from the one before it, checkpoint_before.pt")
            assert (tmp_path / "checkpoint_broken.pt").read_bytes() == broken
    # Not every byte of a file means something: its padding may say anything.
    assert n_taken_before == N_PLACES if damage is cut else n_taken_before > 0


def test_a_run_that_was_killed_between_two_renames_goes_on(tmp_path: Path) -> None:
    expected = hba.search(small_data(), **SETTINGS).schedule
    interrupted(tmp_path)
    (tmp_path / "checkpoint.pt").unlink()
    with pytest.raises(RunError, match="already holds a run"):
        hba.search(small_data(), out=tmp_path, **SETTINGS)
    result = resumed(tmp_path)
    assert expected is not None
    assert result.schedule is not None
    assert (result.schedule.values == expected.values).all()


def test_where_both_are_broken_it_says_what_is_left(tmp_path: Path) -> None:
    interrupted(tmp_path)
    for name in ("checkpoint.pt", "checkpoint_before.pt"):
        (tmp_path / name).write_bytes(b"broken")
    with pytest.raises(RunError, match=r"checkpoint\.pt cannot .*checkpoint_before\.pt cannot .*policy\.json"):
        resumed(tmp_path)


def test_two_searches_in_one_folder_are_refused(tmp_path: Path) -> None:
    class Second(hba.SearchCallback):
        """Begins a search in the same folder while the first is at work."""

        def epoch_done(self, metrics: Any) -> None:
            for settings in ({"resume": True}, SETTINGS):
                with pytest.raises(RunError, match=r"at work in|already holds"):
                    hba.search(small_data(), out=tmp_path, **settings)

    result = hba.search(small_data(), out=tmp_path, callback=Second(), **SETTINGS)
    assert result.finished
