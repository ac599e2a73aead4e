"""What is wrong with an algorithm of one's own is said in one line, before anything is trained."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from search_problems import small_data

import hba
from hba.algorithms import Algorithm, Hypergradient, Lookahead
from hba.algorithms.lambda_steps import GradientState
from hba.algorithms.state import NetworkModel, Networks
from hba.algorithms.task import Task
from hba.errors import SettingsError

SETTINGS: dict[str, Any] = {"model": "wrn-10-1", "epochs": 2, "batch_size": 8, "device": "cpu"}


class Nameless(Algorithm):
    pass


class Impostor(Lookahead):
    pass


class Clashing(Lookahead):
    name: ClassVar[str] = "clashing"
    model: str = "mine"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Nameless, r"^algorithm Nameless must have a name of its own \(name = 'mine'\), got None$"),
        (Impostor, r"^algorithm Impostor must have a name of its own \(name = 'mine'\), got 'lookahead'$"),
        (Clashing, r"^model of algorithm clashing is a setting or an argument of every search; rename it$"),
    ],
)
def test_a_class_that_files_could_not_tell_from_another_is_refused(kind: type[Algorithm], words: str) -> None:
    for given in (kind, kind()):
        with pytest.raises(SettingsError, match=words):
            hba.search(small_data(), algorithm=given, **SETTINGS)


@dataclass(kw_only=True)
class Watched(GradientState[NetworkModel]):
    watcher: object


class Watching(Lookahead):
    """Its state has a field that no file can hold."""

    name: ClassVar[str] = "watching"

    def begin(self, task: Task, networks: Networks) -> Any:
        begun = super().begin(task, networks)
        fields = {name: getattr(begun, name) for name in ("lam", "learner", "mover", "train_stream", "generator")}
        return Watched(**fields, totals=begun.totals, watcher=object())


def test_a_state_that_cannot_be_saved_is_refused_where_it_has_to_be(tmp_path: Path) -> None:
    assert hba.search(small_data(), algorithm=Watching, **SETTINGS).finished
    words = r"^the state of the algorithm watching cannot be saved: watcher is of a kind that cannot be saved: object$"
    with pytest.raises(SettingsError, match=words):
        hba.search(small_data(), algorithm=Watching, out=tmp_path, **SETTINGS)


@dataclass(kw_only=True)
class Remembering(GradientState[NetworkModel]):
    past: list[Any]


class Growing(Lookahead):
    """Its state can be saved at first, and no more once it has remembered something."""

    name: ClassVar[str] = "growing"

    def begin(self, task: Task, networks: Networks) -> Any:
        begun = super().begin(task, networks)
        fields = {name: getattr(begun, name) for name in ("lam", "learner", "mover", "train_stream", "generator")}
        return Remembering(**fields, totals=begun.totals, past=[])

    def step(self, task: Task, state: GradientState[NetworkModel]) -> None:
        super().step(task, state)
        assert isinstance(state, Remembering)
        state.past.append(object())


def test_what_was_found_is_kept_where_the_state_can_no_longer_be_saved(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"^the state of the algorithm growing cannot be saved: past is of a kind"):
        hba.search(small_data(), algorithm=Growing, out=tmp_path, **SETTINGS)
    assert hba.load_policy(tmp_path).epochs == 2


@pytest.mark.parametrize(
    "given", [{"algorithm": Hypergradient()}, {"algorithm": "population", "population_size": 4}, {"algorithm": "hba"}]
)
def test_a_run_is_not_resumed_by_another_algorithm(given: dict[str, Any], tmp_path: Path) -> None:
    hba.search(small_data(), out=tmp_path, **SETTINGS)
    with pytest.raises(SettingsError, match=r"has algorithm 'lookahead' \(given '(hba|population)'\)$"):
        hba.search(small_data(), out=tmp_path, resume=True, **given)


def test_a_wrong_value_is_one_line_where_the_algorithm_is_made() -> None:
    with pytest.raises(SettingsError, match=r"^sigma must be at least 0\.0, got -1$"):
        Lookahead(sigma=-1)
    with pytest.raises(SettingsError, match=r"^there is no setting reward_draw; did you mean reward_draws\?$"):
        Lookahead(reward_draw=3)  # type: ignore[call-arg]
