"""Searches over other spaces than the paper's: named, chosen, and one's own."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from own_operations import DARKEN, GAMMA, gamma
from search_problems import SMALL_SETTINGS, small_data
from torch import Tensor

import hba
from hba.algorithms import Lookahead
from hba.errors import RunError, ScheduleError, SettingsError
from hba.operations import OPERATIONS, Operation, register_operation
from hba.policy.space import SearchSpace
from hba.policy.spaces import SPACES, search_space
from hba.policy.starts import randaugment

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


@pytest.mark.parametrize(
    ("settings", "space"),
    [
        ({"operations": "Rotate,Invert"}, search_space("hba", ["Rotate", "Invert"], searches_count=True)),
        ({"operations": ["Solarize"], "space": "pba", "count": "fixed"}, search_space("pba", ["Solarize"])),
        ({"interpolation": "bilinear"}, search_space("hba", None, "bilinear", searches_count=True)),
        ({"space": SPACES["pba"]}, SPACES["pba"]),
        ({"count": "fixed"}, SearchSpace()),
        ({}, search_space(searches_count=True)),
    ],
    ids=["operations", "of pba", "bilinear", "an object", "a fixed count", "nothing"],
)
def test_the_schedule_is_over_the_space_that_was_asked_for(
    settings: dict[str, Any], space: SearchSpace, tmp_path: Path
) -> None:
    result = run(tmp_path / "run", **settings)
    assert found(result).space == space
    assert found(result).values.shape == (2, space.n)
    assert result.lam.shape == (space.n,)
    loaded = hba.load_policy(tmp_path / "run")
    assert loaded.space == space
    np.testing.assert_array_equal(loaded.values, found(result).values)


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


def test_a_registered_operation_can_be_named(tmp_path: Path) -> None:
    register_operation(GAMMA)
    result = run(tmp_path / "run", operations="all,Gamma")
    assert found(result).space.operations == (*OPERATIONS.values(), GAMMA)
    assert found(result).provenance["settings"]["operations"] == ["all", "Gamma"]
    assert json.loads((tmp_path / "run" / "config.json").read_text())["operations"] == ["all", "Gamma"]


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


def test_an_algorithm_that_searches_the_count_is_refused_with_a_space_of_one_s_own() -> None:
    left = {name for name in SMALL_SETTINGS if name not in Lookahead.model_fields}
    settings: dict[str, Any] = {name: SMALL_SETTINGS[name] for name in left}
    with pytest.raises(SettingsError, match=r"^count has no effect on a search space of your own; remove it$"):
        hba.search(small_data(), space=SearchSpace(), algorithm=Lookahead(count="searched"), **settings)
    result = hba.search(small_data(), space=SearchSpace(), algorithm=Lookahead(reward_draws=2), **settings)
    assert found(result).space == SearchSpace(), "by default it asks for nothing"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"space": "hba"}, "has space 'pba' (given 'hba')"),
        ({"operations": "Color,Rotate"}, "has operations ['Rotate', 'Color'] (given ['Color', 'Rotate'])"),
        ({"interpolation": "bilinear"}, "has interpolation 'nearest' (given 'bilinear')"),
    ],
)
def test_resuming_in_another_space_is_refused_by_its_setting(
    given: dict[str, Any], message: str, tmp_path: Path
) -> None:
    run(tmp_path, space="pba", operations=["Rotate", "Color"], epochs=1)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(SettingsError) as raised:
        run(tmp_path, resume=True, epochs=1, **given)
    assert str(raised.value) == f"a resumed run keeps its settings; {tmp_path} {message}"
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("operations", ["Rotate,Color", ["Rotate", "Color"], ("Rotate", "Color")])
def test_resuming_with_the_same_operations_in_any_form_goes_on(operations: Any, tmp_path: Path) -> None:
    first = run(tmp_path, space="pba", operations=("Rotate", "Color"))
    again = run(tmp_path, space="pba", operations=operations, resume=True)
    assert again.finished
    np.testing.assert_array_equal(found(again).values, found(first).values)


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


class StopAtOnce(hba.SearchCallback):
    def __init__(self) -> None:
        self.n_steps = 0

    def step_done(self, step: int) -> None:
        self.n_steps += 1

    def stop_requested(self) -> bool:
        return self.n_steps >= 4


def test_a_search_in_an_own_space_goes_on_to_the_same_schedule(tmp_path: Path) -> None:
    register_operation(GAMMA)
    whole = run(space=own_space())
    assert not run(tmp_path, space=own_space(), callback=StopAtOnce()).finished
    resumed = run(tmp_path, space=own_space(), resume=True)
    assert resumed.finished
    np.testing.assert_array_equal(found(resumed).values, found(whole).values)


@pytest.mark.parametrize(
    "other",
    [
        {"space": own_space(low=0.6)},
        {"space": own_space(copies=1)},
        {"space": SearchSpace(own_space().operations, count_probabilities=(0.0, 1.0))},
        {"space": SearchSpace(own_space().operations[::-1])},
        {"space": SearchSpace()},
    ],
    ids=["range", "copies", "counts", "order", "default object"],
)
def test_resuming_an_own_space_with_another_is_refused(other: dict[str, Any], tmp_path: Path) -> None:
    register_operation(GAMMA)
    run(tmp_path, space=own_space(), epochs=1)
    with pytest.raises(RunError) as raised:
        run(tmp_path, resume=True, epochs=1, **other)
    assert str(raised.value).startswith(f"the search space changed since {tmp_path} was begun (")


def test_a_run_in_an_own_space_can_be_told_from_its_first_moment(tmp_path: Path) -> None:
    """Killed before its first save it would else go on in the paper's space, which its settings name."""

    class Killed(hba.SearchCallback):
        def started(self, step: int, total_steps: int, batch_size: int, n_epochs: int) -> None:
            raise KeyboardInterrupt

    register_operation(GAMMA)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, space=own_space(), callback=Killed())
    for none in ({}, {"space": "hba"}):
        with pytest.raises(SettingsError, match="has a space of its own, which no file has; give space in Python to"):
            run(tmp_path, resume=True, **none)
    assert found(run(tmp_path, space=own_space(), resume=True)).space == own_space()


def test_what_an_own_space_left_unused_is_not_said_to_be_its_settings() -> None:
    register_operation(GAMMA)
    settings = found(run(space=own_space())).provenance["settings"]
    assert [settings[name] for name in ("space", "operations", "interpolation", "count")] == [None] * 4
    settings = found(run(space="pba", operations="Rotate", count="fixed")).provenance["settings"]
    assert [settings[name] for name in ("space", "operations", "interpolation")] == ["pba", ["Rotate"], "nearest"]


def test_resuming_where_an_own_operation_means_something_else_is_refused(tmp_path: Path) -> None:
    register_operation(GAMMA)
    run(tmp_path, operations="Gamma", count="fixed", epochs=1)
    register_operation(Operation("Gamma", gamma, (0.5, 2.0), "power", 1.0))
    with pytest.raises(RunError, match="the search space changed since"):
        run(tmp_path, resume=True, epochs=1)


THIRDS = [(0.0, 2 / 3), (2 / 3, 0.0), (1 / 3, 2 / 3), (2 / 3, 1 / 3), (-2 / 3, -1 / 3)]


def unchanged(images: Tensor, parts: Tensor) -> Tensor:
    return images.clone()


def test_rounding_keeps_values_at_the_ends_of_awkward_ranges(tmp_path: Path) -> None:
    """Six digits of 1/3 lie below it and six of 2/3 above it; one large step takes lambda to the ends."""
    operations = [
        register_operation(Operation(f"Third{number}", unchanged, magnitude_range, "parts"))
        for number, magnitude_range in enumerate(THIRDS)
    ]
    # One epoch of two steps, so that the only step of lambda is the last of all. The paper's moves every value, drawn
    # or not.
    settings: dict[str, Any] = {"epochs": 1, "batch_size": 12, "lambda_learning_rate": 1e4, "paper": True}
    result = run(tmp_path, space=SearchSpace(tuple(operations)), **settings)
    schedule = found(result)
    row = schedule.values[0]
    low, high = np.sort(np.array(schedule.space.ranges), axis=1).T
    assert ((row == low) | (row == high)).all(), "each value sits at an end, and exactly there"
    rounded = np.round(row, 6)
    assert ((rounded < low) | (rounded > high)).any(), "plain rounding would not do"
    np.testing.assert_array_equal(hba.load_policy(tmp_path).values, schedule.values)
