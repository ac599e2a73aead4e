"""What is wrong with an algorithm of one's own is said in one line, before anything is trained."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from each import each
from search_problems import small_data

import hba
from hba.algorithms import Algorithm, Lookahead
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


@each(
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
    with pytest.raises(SettingsError, match=r"watching .* watcher .*object$"):
        hba.search(small_data(), algorithm=Watching, out=tmp_path, **SETTINGS)
