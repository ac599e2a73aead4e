"""A training that is stopped goes on to the numbers of one that is not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_trainings import BATCH, N_TRAIN, Mixes, one_operation, tiny_data
from torch import nn

from hba.config.evaluation import EvaluationConfig
from hba.errors import RunError
from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.regularization.regularizer import Hyperparameter
from hba.schedule.mixing import Mixing
from hba.schedule.schedule import Schedule
from hba.training import checkpoint
from hba.training.augmentation import Augmentation, ScheduleAugmentation
from hba.training.checkpoint import TrainCheckpoint
from hba.training.custom_network import CustomNetwork
from hba.training.trainer import Trained, train

EPOCHS = 4
STEPS = N_TRAIN // BATCH
SETTINGS: dict[str, Any] = {
    "data": "tiny",
    "model": "wrn-10-1",
    "epochs": EPOCHS,
    "batch_size": BATCH,
    "device": "cpu",
    "learning_rate": 0.01,
    "weight_decay": 0.01,
    "flip": True,
}


class Stopped(Exception):
    """As by a kill: after so many steps."""


def tuned_schedule() -> Schedule:
    """Rotations, and a dropout and a weight decay that change from epoch to epoch."""
    regularizers = (
        Hyperparameter("dropout.2", 0.0, 1.0, 0.05),
        Hyperparameter("weight_decay", 1e-6, 1.0, 5e-4, "log"),
    )
    space = SearchSpace(
        (OPERATIONS["Rotate"],), 1, (0.0, 1.0), regularizers=regularizers
    )
    rows = [
        [1.0, 10.0 * epoch, 0.1 * epoch, 0.001 * (1 + epoch)] for epoch in range(EPOCHS)
    ]
    return Schedule(space, np.array(rows))


def network_with_dropout() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(192, 8),
        nn.Dropout(0.3),
        nn.BatchNorm1d(8),
        nn.Linear(8, 2),
    )


CASES: dict[str, tuple[Augmentation, nn.Module | None, dict[str, Any]]] = {
    "no augmentation": (ScheduleAugmentation(None), None, {}),
    "operations": (
        ScheduleAugmentation(one_operation("Rotate", [[1.0, 20.0]])),
        None,
        {"crop_padding": 1},
    ),
    "dropout by a schedule": (
        ScheduleAugmentation(tuned_schedule()),
        network_with_dropout(),
        {"learning_rate_schedule": "step"},
    ),
    "mixing": (Mixes(*[Mixing(0.5, 1.0, 0.5, 1.0)] * EPOCHS), None, {}),
    "adamw": (
        ScheduleAugmentation(None),
        network_with_dropout(),
        {"optimizer": "adamw", "learning_rate_warm_up_epochs": 1},
    ),
}


def train_case(
    case: str, kept: TrainCheckpoint | None, stop_after: int | None = None
) -> Trained:
    augmentation, network, settings = CASES[case]
    done = [0]

    def step_done() -> None:
        done[0] += 1
        if done[0] == stop_after:
            raise Stopped

    torch.manual_seed(5)
    own_network = None if network is None else CustomNetwork(network)
    config = EvaluationConfig.make({**SETTINGS, **settings})
    return train(
        config, tiny_data(), augmentation, 3, step_done, own_network, checkpoint=kept
    )


@pytest.fixture(autouse=True)
def saved_after_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", -1.0)


@pytest.mark.parametrize(
    ("case", "stop_after"),
    [
        ("no augmentation", STEPS),
        ("operations", 3 * STEPS + 2),
        ("dropout by a schedule", 2 * STEPS),
        ("mixing", STEPS + 1),
        ("adamw", STEPS + 2),
    ],
)
def test_a_stopped_training_goes_on_to_the_same_numbers(
    case: str, stop_after: int, tmp_path: Path
) -> None:
    whole = train_case(case, None)
    kept = TrainCheckpoint(tmp_path, [case])
    with pytest.raises(Stopped):
        train_case(case, kept, stop_after)
    assert kept.path is not None
    assert kept.path.exists()
    # Default generators are elsewhere when it goes on.
    torch.rand(7)
    result = train_case(case, kept)
    assert result.test == whole.test
    assert result.epochs == whole.epochs
    for tensor, other in zip(
        result.network.state_dict().values(),
        whole.network.state_dict().values(),
        strict=True,
    ):
        assert torch.equal(tensor, other)
    kept.remove()
    assert list(tmp_path.iterdir()) == []


def test_what_is_saved_is_taken_only_by_the_same_training_and_must_be_readable(
    tmp_path: Path,
) -> None:
    kept = TrainCheckpoint(tmp_path, ["this"])
    with pytest.raises(Stopped):
        train_case("operations", kept, 5)
    assert kept.path is not None
    whole = train_case("no augmentation", None)
    other = TrainCheckpoint(tmp_path, ["that"])
    assert other.path != kept.path
    assert train_case("no augmentation", other).test == whole.test
    kept.path.write_bytes(kept.path.read_bytes()[:-100])
    with pytest.raises(RunError, match="cannot be read"):
        train_case("operations", kept)
