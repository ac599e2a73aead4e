"""The bar that progress=True shows: where there is something to show it on, and beside a callback of one's own."""

import sys
from collections.abc import Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import hba
from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule
from hba.utils.progress import ProgressBar, shows_progress

SMALL: dict[str, Any] = {"epochs": 2, "model": "wrn-10-1", "device": "cpu"}


class Cell:
    """What IPython would show under a cell, as text, one after the other."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def show(self, renderable: Any, display_id: bool = True) -> SimpleNamespace:
        self.update(renderable)
        return SimpleNamespace(update=self.update)

    def update(self, renderable: Any) -> None:
        console = Console(width=100, force_jupyter=False)
        with console.capture() as capture:
            console.print(renderable)
        self.shown.append(capture.get())


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    """A notebook, whose cells show an update at once."""
    cell, module = Cell(), ModuleType("IPython.display")
    module.__dict__["display"] = cell.show
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("hba.utils.progress.SECONDS_BETWEEN_UPDATES", 0.0)
    return cell


class Noting(hba.SearchCallback):
    def __init__(self) -> None:
        self.n_steps, self.epochs = 0, list[float | None]()

    def step_done(self, step: int) -> None:
        self.n_steps += 1

    def epoch_done(self, metrics: Mapping[str, float | None]) -> None:
        self.epochs.append(metrics["epoch"])

    def stop_requested(self) -> bool:
        return self.n_steps == 3


def test_a_search_is_silent_where_nobody_looks(capfd: pytest.CaptureFixture[str]) -> None:
    assert hba.search("digits", progress=True, **SMALL).finished
    assert capfd.readouterr() == ("", "")


def test_a_notebook_shows_the_steps_of_a_search(cell: Cell) -> None:
    hba.search("digits", progress=True, **SMALL)
    assert any("first epoch" in text and " 25%" in text for text in cell.shown)
    assert any("images/s" in text for text in cell.shown), cell.shown
    assert any("epoch 1/2: train loss" in text and " 75%" in text for text in cell.shown)
    assert cell.shown[-1].strip() == "", "the bar goes away"


def test_an_observer_of_ones_own_is_told_everything_beside_the_bar(cell: Cell) -> None:
    own = Noting()
    assert not hba.search("digits", progress=True, callback=own, **SMALL).finished
    assert (own.n_steps, own.epochs) == (3, [1])
    assert any("epoch 1/2: train loss" in text for text in cell.shown)


def test_a_notebook_shows_the_steps_of_an_evaluation(cell: Cell) -> None:
    schedule = Schedule(SearchSpace((OPERATIONS["Invert"],), copies=2), np.full((1, 2), 0.5))
    hba.evaluate(schedule, "digits", progress=True, train_size=200, seeds=1, **SMALL)
    assert any("training 1/2 " in text for text in cell.shown), cell.shown
    assert any("training 2/2 (schedule, seed 0: test error" in text for text in cell.shown)


def test_without_the_argument_nothing_is_shown(cell: Cell) -> None:
    hba.search("digits", **SMALL)
    assert cell.shown == []


def test_an_error_takes_the_bar_away(cell: Cell) -> None:
    class Bar(hba.SearchCallback, ProgressBar):
        pass

    @shows_progress(Bar)
    def work(*, callback: Any = None, progress: bool = False) -> None:
        callback.begin("working", 1, 4, "pieces")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work(progress=True)
    assert " 25%" in cell.shown[0]
    assert cell.shown[-1].strip() == ""
