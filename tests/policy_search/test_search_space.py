"""Searches over other spaces than the paper's: named, chosen, and your own."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from own_operations import DARKEN, GAMMA
from search_problems import SMALL_SETTINGS, StopAfter, small_data
from search_steps import algorithm_of, begun
from torch import Tensor

import hba
from hba.errors import ScheduleError, SettingsError
from hba.operations import OPERATIONS, Operation, register_operation
from hba.policy.space import SearchSpace
from hba.policy.spaces import SPACES, randaugment, search_space
from hba.schedule.summary import start_of

pytestmark = pytest.mark.usefixtures("registered")


def run(out: Path | None = None, **settings: Any) -> hba.SearchResult:
    return hba.search(
        small_data(), out=out, **{**SMALL_SETTINGS, "epochs": 2, **settings}
    )


def schedule_of(result: hba.SearchResult) -> hba.Schedule:
    assert result.schedule is not None
    return result.schedule


@pytest.mark.parametrize(
    ("paper", "solarize", "posterize"), [(False, 128.0, 2.0), (True, 243.2, 3.8)]
)
def test_a_named_space_begins_where_it_says(
    paper: bool, solarize: float, posterize: float
) -> None:
    """Without a step of lambda the row is the start: half of the way, or 5 %, from 256
    to 0, and from 4 to 0.
    """
    schedule = schedule_of(
        run(
            space="pba",
            algorithm="hba" if paper else "lookahead",
            epochs=1,
            val_steps=0,
            init="fraction",
            count="fixed",
        )
    )
    assert schedule.space == SPACES["pba"]
    assert schedule.provenance["settings"]["space"] == "pba"
    named = dict(zip(schedule.space.names, schedule.values[0], strict=True))
    assert named["Solarize.1.magnitude"] == pytest.approx(solarize, rel=1e-5)
    assert named["Posterize.2.magnitude"] == pytest.approx(posterize, rel=1e-5)


def test_a_given_start_and_range_are_recorded_and_resumed(tmp_path: Path) -> None:
    start = {
        "HorizontalFlip": 0.25,
        "ResizedCrop.magnitude": 0.5,
        "Rotate.magnitude": 100.0,
    }
    settings: dict[str, Any] = {
        "operations": "HorizontalFlip,ResizedCrop,Rotate",
        "ranges": {"Rotate": (0, 180)},
        "start": start,
        "epochs": 2,
        "init": "randaugment",
    }
    whole = schedule_of(run(**settings))
    run(tmp_path, **settings, callback=StopAfter(1))
    loaded = schedule_of(run(tmp_path, resume=True, epochs=2))
    np.testing.assert_array_equal(loaded.values, whole.values)
    began = start_of(hba.load_policy(tmp_path))
    assert began is not None
    named = dict(zip(loaded.space.names, began, strict=True))
    assert named["HorizontalFlip.probability"] == pytest.approx(0.25)
    assert named["Rotate.2.magnitude"] == pytest.approx(100.0)
    assert named["Rotate.2.probability"] == pytest.approx(0.5)
    assert loaded.space.walk[0].magnitude_range == (0.0, 180.0)
    with pytest.raises(SettingsError, match="start"):
        run(tmp_path, resume=True, start="HorizontalFlip=0.5")
    with pytest.raises(SettingsError, match="HorizontalFlip"):
        run(space=SearchSpace(), start="HorizontalFlip=0.5")


@pytest.mark.parametrize("algorithm", ["delta-stn", "lookahead"])
def test_operations_of_the_space_stn_act_on_every_image(
    algorithm: str, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {
        "space": "stn",
        "algorithm": algorithm,
        "epochs": 3,
        "train_steps": 1,
    }
    settings |= {
        "lambda_learning_rate": 0.1,
        "learning_rate": 0.001,
        "warm_up_epochs": 0,
    }
    schedule = schedule_of(run(tmp_path, **settings))
    is_probability = np.array(
        [name.endswith(".probability") for name in schedule.space.names]
    )
    assert is_probability.sum() == 9
    assert (schedule.values[:, is_probability] == 1).all()
    magnitudes = schedule.values[:, ~is_probability]
    assert (magnitudes[-1] != magnitudes[0]).all()
    began = start_of(hba.load_policy(tmp_path))
    assert began is not None
    assert (began[is_probability] == 1).all()


def test_what_is_not_searched_has_no_noise_and_stays() -> None:
    """Noise on a probability that is fixed would only disturb the response of the
    weights.
    """
    problem, state = begun(
        search_space("stn", ["Hue", "Zoom"]), algorithm="stn", warm_up_epochs=0
    )
    assert problem.space.names[::2] == ("Zoom.probability", "Hue.probability")
    assert (problem.noise(5, state.generator) != 0).all(dim=0).tolist() == [
        False,
        True,
    ] * 2
    before = state.lam.detach().clone()
    for _ in range(4):
        algorithm_of(problem).step(problem, state)
    assert (state.lam != before).tolist() == [False, True] * 2


def test_your_own_operation_is_searched_resumed_saved_and_loaded(
    tmp_path: Path, registered: dict[str, Operation]
) -> None:
    register_operation(GAMMA)
    space = SearchSpace((GAMMA.with_range((0.5, 2.0)), OPERATIONS["Rotate"]), copies=1)
    whole = run(space=space, epochs=3)
    run(tmp_path, space=space, epochs=3, callback=StopAfter(1))
    resumed = run(tmp_path, space=space, resume=True, epochs=3)
    np.testing.assert_array_equal(
        schedule_of(resumed).values, schedule_of(whole).values
    )
    assert hba.load_policy(tmp_path).space == space
    start = space.decode(randaugment(space).double()).numpy()
    assert not np.allclose(schedule_of(resumed).values[-1], start), (
        "the search moves it"
    )
    del registered["Power"]
    with pytest.raises(ScheduleError, match="Power"):
        hba.load_policy(tmp_path)


def test_your_own_function_gets_the_images_that_drew_it_and_the_fill(
    tmp_path: Path,
) -> None:
    seen: list[tuple[Tensor, ...]] = []

    def note(images: Tensor, magnitude: Tensor, fill: Tensor) -> Tensor:
        seen.append((images.clone(), magnitude, fill))
        return images.clone()

    register_operation(
        Operation("Note", note, (2.0, 3.0), "notes", None, uses_fill=True)
    )
    seen.clear()
    settings: dict[str, Any] = {
        "operations": "Note",
        "count": "fixed",
        "train_steps": 1,
        "epochs": 4,
    }
    assert schedule_of(run(tmp_path, fill="0.25,0.5,1", **settings)).fill == (
        0.25,
        0.5,
        1.0,
    )
    assert seen
    for images, magnitude, fill in seen:
        assert images.shape == (len(magnitude), 3, 8, 8)
        assert 2 <= magnitude.min() <= magnitude.max() <= 3
        assert 0 <= images.min() <= images.max() <= 1
        assert fill.tolist() == [0.25, 0.5, 1.0]
    assert hba.load_policy(tmp_path).fill == (0.25, 0.5, 1.0)
    with pytest.raises(SettingsError, match="fill"):
        run(tmp_path, fill="0.5", resume=True, **settings)


class Untouched(hba.SearchCallback):
    def planned(self, plan: hba.SearchPlan) -> None:
        raise AssertionError("the images were read")


def test_a_space_that_cannot_be_used_is_refused_before_anything_begins(
    tmp_path: Path,
) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"space": SearchSpace((OPERATIONS["Rotate"], GAMMA))}, "Power"),
        ({"space": SearchSpace((DARKEN,))}, "Darken"),
        (
            {"space": SearchSpace((Operation("Nameless", torch.nn.Identity()),))},
            "Nameless",
        ),
        ({"operations": "all,Power"}, "Power"),
        ({"space": "faa"}, "faa"),
        *(
            ({"space": SearchSpace(), name: value}, name)
            for name, value in (("operations", "Rotate"), ("count", "s"))
        ),
    ]
    for settings, name in cases:
        with pytest.raises(SettingsError, match=name) as raised:
            run(tmp_path / "run", callback=Untouched(), **settings)
        assert len(str(raised.value).splitlines()) == 1
        assert not (tmp_path / "run").exists()
