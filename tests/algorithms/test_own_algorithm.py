"""An algorithm of one's own is a class like those that there are, and needs nothing but to be given."""

import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from search_problems import SMALL_SETTINGS, StopAfter, small_data
from torch import Tensor

import hba
from hba.algorithms import Algorithm, Lookahead, SearchState, Task
from hba.algorithms.scores import AugmentedBatch
from hba.algorithms.state import EpochTotals, NetworkModel, Networks
from hba.errors import HbaError


class Drifting(Algorithm):
    """Lambda goes at random."""

    name: ClassVar[str] = "drifting"

    strength: float = 0.1
    """How far it goes."""

    def begin(self, task: Task, networks: Networks) -> Any:
        return SearchState(
            lam=task.initial_lambda(self.initial_fraction),
            learner=NetworkModel.of(task, networks(0)),
            train_stream=task.train_stream(),
            generator=task.generator(),
            totals=EpochTotals.zero(task.device),
        )

    def step(self, task: Task, state: SearchState[NetworkModel]) -> None:
        images, labels = state.train_stream.next()
        inputs = task.augment(images, state.lam.expand(len(images), -1), state.generator)
        state.totals.add_training(*state.learner.learn(inputs, labels))
        state.step += 1
        if state.step % self.train_steps == 0:
            state.lam += self.strength * torch.randn(state.lam.shape, generator=state.generator)


class Easy(Lookahead):
    """What the network already knows is rewarded, and for a strength below 0, what it does not."""

    name: ClassVar[str] = "easy"

    strength: float = 1.0

    def rewards(self, learner: NetworkModel, trial: AugmentedBatch, loss: Tensor) -> Tensor:
        with torch.no_grad():
            return -self.strength * F.cross_entropy(learner.network(trial.images), trial.labels, reduction="none")


pytestmark = pytest.mark.parametrize("own", [Drifting, Easy])
OF_ANY_SEARCH: dict[str, Any] = {name: SMALL_SETTINGS[name] for name in ("model", "epochs", "batch_size", "device")}
OF_THE_ALGORITHM: dict[str, Any] = {"train_steps": 2, "strength": -0.5}


def run(algorithm: Any, out: Path | None = None, **settings: Any) -> hba.SearchResult:
    return hba.search(small_data(), out=out, algorithm=algorithm, **{**OF_ANY_SEARCH, **settings})


def values_of(result: hba.SearchResult) -> np.ndarray:
    assert result.schedule is not None
    return result.schedule.values


def test_an_object_and_a_class_with_flat_words_are_the_same_search(own: type[Algorithm]) -> None:
    result, same = run(own(**OF_THE_ALGORITHM)), run(own, **OF_THE_ALGORITHM)
    assert result.finished
    np.testing.assert_array_equal(values_of(result), values_of(same))
    assert (values_of(result)[0] != values_of(result)[-1]).any()
    assert result.schedule is not None
    assert result.schedule.provenance["algorithm"] == own.name
    assert result.metrics[-1]["val_error_percent"] is not None


def test_its_own_setting_and_its_own_step_decide(own: type[Algorithm]) -> None:
    ends = [values_of(run(own, **{**OF_THE_ALGORITHM, "strength": strength}))[-1] for strength in (-0.5, 0.5)]
    ends.append(values_of(run("lookahead", train_steps=2, warm_up_epochs=0))[-1])
    # Some search K too, whose numbers come last.
    assert len({tuple(end[:54]) for end in ends}) == 3


def test_its_settings_stand_flat_beside_the_others(own: type[Algorithm], tmp_path: Path) -> None:
    result = run(own(**OF_THE_ALGORITHM), tmp_path)
    assert result.schedule is not None
    of_file = json.loads((tmp_path / "config.json").read_text())
    for settings in (of_file, result.schedule.provenance["settings"], hba.load_policy(tmp_path).provenance["settings"]):
        assert settings["algorithm"] == own.name
        assert settings.keys() >= own.model_fields.keys()
        assert {name: settings[name] for name in OF_THE_ALGORITHM} == OF_THE_ALGORITHM
        assert settings["initial_fraction"] == 0.5
        assert settings["epochs"] == 3
        assert "sharing" not in settings


def test_a_run_is_resumed_to_the_same_end(own: type[Algorithm], tmp_path: Path) -> None:
    whole = run(own(**OF_THE_ALGORITHM))
    run(own(**OF_THE_ALGORITHM), tmp_path, callback=StopAfter(4))
    resumed = hba.search(small_data(), out=tmp_path, resume=True, algorithm=own)
    assert resumed.finished
    np.testing.assert_array_equal(values_of(resumed), values_of(whole))
    assert torch.equal(resumed.lam, whole.lam)
    for name, value in resumed.network.state_dict().items():
        assert torch.equal(value, whole.network.state_dict()[name]), name


def refused(out: Path, **given: Any) -> str:
    """What is said about it, which is one line and changes nothing."""
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(HbaError) as raised:
        hba.search(small_data(), out=out, resume=True, **given)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    (line,) = str(raised.value).splitlines()
    return line


def test_resuming_with_other_settings_of_it_or_with_another_names_the_difference(
    own: type[Algorithm], tmp_path: Path
) -> None:
    run(own(**OF_THE_ALGORITHM), tmp_path, callback=StopAfter(4))
    start = f"a resumed run keeps its settings; {tmp_path} has "
    other = {**OF_THE_ALGORITHM, "strength": 2.0}
    assert refused(tmp_path, algorithm=own(**other)) == start + "strength -0.5 (given 2.0)"
    assert refused(tmp_path, algorithm=own, strength=2.0) == start + "strength -0.5 (given 2.0)"
    run("hba", tmp_path / "hba", train_steps=2, callback=StopAfter(4))
    assert f"algorithm 'hba' (given {own.name!r})" in refused(tmp_path / "hba", algorithm=own)
