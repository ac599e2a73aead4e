"""Searches over other spaces than the paper's: named, chosen, and one's own."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from own_operations import DARKEN, GAMMA
from search_problems import SMALL_SETTINGS, StopAfter, small_data
from torch import Tensor

import hba
from hba.errors import ScheduleError, SettingsError
from hba.operations import OPERATIONS, Operation, register_operation
from hba.policy.space import SearchSpace
from hba.policy.spaces import SPACES, randaugment

pytestmark = pytest.mark.usefixtures("registered")


def run(out: Path | None = None, **settings: Any) -> hba.SearchResult:
    return hba.search(small_data(), out=out, **{**SMALL_SETTINGS, "epochs": 2, **settings})


def found(result: hba.SearchResult) -> hba.Schedule:
    assert result.schedule is not None
    return result.schedule


def first_row(space: SearchSpace) -> np.ndarray:
    return space.decode(randaugment(space).double()).numpy()


@pytest.mark.parametrize(("paper", "solarize", "posterize"), [(False, 128.0, 2.0), (True, 243.2, 3.8)])
def test_the_digits_are_searched_in_pba_s_space(paper: bool, solarize: float, posterize: float) -> None:
    settings: dict[str, Any] = {**SMALL_SETTINGS, "epochs": 1, "train_size": 20, "val_size": 20, "val_steps": 0}
    settings |= {"init": "fraction", "count": "fixed"}
    schedule = found(hba.search("digits", space="pba", paper=paper, **settings))
    assert schedule.space == SPACES["pba"]
    assert schedule.provenance["settings"]["space"] == "pba"
    # Without a step of lambda the row is the start: half of the way, or 5 %, from 256 to 0, and from 4 to 0.
    named = schedule.space.named(torch.tensor(schedule.values[0]))
    assert named["Solarize.1.magnitude"] == pytest.approx(solarize, rel=1e-5)
    assert named["Posterize.2.magnitude"] == pytest.approx(posterize, rel=1e-5)


def test_an_own_operation_is_searched_saved_and_loaded(tmp_path: Path, registered: dict[str, Operation]) -> None:
    register_operation(GAMMA)
    space = SearchSpace((GAMMA, OPERATIONS["Rotate"]), copies=1)
    result = run(tmp_path / "run", space=space, epochs=4)
    assert found(result).space == space
    assert not np.allclose(found(result).values[-1], first_row(space)), "the search moves it"
    assert hba.load_policy(tmp_path / "run").space == space
    del registered["Gamma"]
    with pytest.raises(ScheduleError, match=r"Gamma, which is not one of hba's operations but the function own_op"):
        hba.load_policy(tmp_path / "run")


def test_an_own_function_gets_the_images_that_drew_it(tmp_path: Path) -> None:
    seen: list[tuple[Tensor, Tensor]] = []

    def note(images: Tensor, magnitude: Tensor) -> Tensor:
        seen.append((images, magnitude))
        return images

    register_operation(Operation("Note", note, (2.0, 3.0), "notes", None))
    seen.clear()
    run(operations="Note", count="fixed", train_steps=1, epochs=6)
    assert seen
    for images, magnitude in seen:
        assert images.shape[1:] == (3, 8, 8)
        assert magnitude.shape == images.shape[:1]
        assert ((magnitude >= 2) & (magnitude <= 3)).all()
        assert ((images >= 0) & (images <= 1)).all()


class Untouched(hba.SearchCallback):
    """Nothing may have begun."""

    def planned(self, plan: hba.SearchPlan) -> None:
        raise AssertionError("the images were read")

    def started(self, step: int, total_steps: int, batch_size: int, n_epochs: int) -> None:
        raise AssertionError("the training began")


NAMELESS = Operation("Nameless", torch.nn.Identity())
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"space": SearchSpace((OPERATIONS["Rotate"], GAMMA))}, "unknown operation 'Gamma'; known: ShearX, "),
    ({"space": SearchSpace((DARKEN,)), "resume": True}, "unknown operation 'Darken'; known: ShearX, "),
    ({"space": SearchSpace((NAMELESS,))}, "unknown operation 'Nameless'; known: ShearX, "),
    ({"operations": "all,Gamma"}, "unknown operation 'Gamma'; known: ShearX, "),
    ({"space": "faa"}, "unknown search space 'faa'; known: hba, pba"),
    (
        {"space": SearchSpace(), "operations": "Rotate"},
        "operations has no effect on a search space of your own; remove it",
    ),
    ({"space": SearchSpace(), "interpolation": "nearest"}, "interpolation has no effect on a search space of your own"),
    ({"space": SearchSpace(), "count": "searched"}, "count has no effect on a search space of your own; remove it"),
]


@pytest.mark.parametrize(("settings", "message"), REFUSED, ids=[message[:35] for _, message in REFUSED])
def test_a_space_that_cannot_be_used_is_refused_before_anything_begins(
    settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError) as raised:
        run(tmp_path / "run", callback=Untouched(), **settings)
    assert str(raised.value).startswith(message)
    assert len(str(raised.value).splitlines()) == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("fill", "expected"), [("0.25,0.5,1", (0.25, 0.5, 1.0)), ([0.125], (0.125,))])
def test_the_fill_of_the_search_is_the_schedule_s(fill: Any, expected: tuple[float, ...], tmp_path: Path) -> None:
    seen: list[Tensor] = []

    def note(images: Tensor, fill: Tensor) -> Tensor:
        seen.append(fill)
        return images.clone()

    register_operation(Operation("Note", note, uses_fill=True))
    seen.clear()
    settings: dict[str, Any] = {"operations": "Note", "count": "fixed", "train_steps": 1, "epochs": 6}
    assert found(run(tmp_path, fill=fill, **settings)).fill == expected
    assert seen
    assert all(color.tolist() == list(expected) * (3 // len(expected)) for color in seen)
    assert hba.load_policy(tmp_path).fill == expected
    assert run(tmp_path, fill=expected, resume=True, **settings).finished
    with pytest.raises(SettingsError, match=r"has fill .* \(given \[0\.5\]\)"):
        run(tmp_path, fill="0.5", resume=True, **settings)


def own_space(low: float = 0.5, copies: int = 2) -> SearchSpace:
    return SearchSpace((GAMMA.with_range((low, 2.0)), OPERATIONS["Rotate"]), copies)


def test_a_search_in_an_own_space_goes_on_to_the_same_schedule(tmp_path: Path) -> None:
    register_operation(GAMMA)
    whole = run(space=own_space())
    assert not run(tmp_path, space=own_space(), callback=StopAfter(1)).finished
    resumed = run(tmp_path, space=own_space(), resume=True)
    assert resumed.finished
    np.testing.assert_array_equal(found(resumed).values, found(whole).values)


THIRDS = [(0.0, 2 / 3), (2 / 3, 0.0), (1 / 3, 2 / 3), (2 / 3, 1 / 3), (-2 / 3, -1 / 3)]
