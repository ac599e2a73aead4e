"""An algorithm of one's own is a class like those that there are, and needs nothing but to be given."""

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
from hba.algorithms.state import NetworkModel, Networks


class Drifting(Algorithm):
    """Lambda goes at random."""

    name: ClassVar[str] = "drifting"

    strength: float = 0.1
    """How far it goes."""

    def begin(self, task: Task, networks: Networks) -> Any:
        return SearchState.of(task, self.start(task), NetworkModel.of(task, networks(0)))

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


def test_a_run_is_resumed_to_the_same_end(own: type[Algorithm], tmp_path: Path) -> None:
    whole = run(own(**OF_THE_ALGORITHM))
    run(own(**OF_THE_ALGORITHM), tmp_path, callback=StopAfter(4))
    resumed = hba.search(small_data(), out=tmp_path, resume=True, algorithm=own)
    assert resumed.finished
    np.testing.assert_array_equal(values_of(resumed), values_of(whole))
    assert torch.equal(resumed.lam, whole.lam)
    for name, value in resumed.network.state_dict().items():
        assert torch.equal(value, whole.network.state_dict()[name]), name
