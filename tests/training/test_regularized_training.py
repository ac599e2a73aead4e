"""Regularizers of a schedule in an ordinary training."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_trainings import BATCH, EPOCHS, N_TRAIN, tiny_data, two_sides
from torch import Tensor, nn

import hba
from hba.config.evaluation import EvaluationConfig
from hba.data import SearchData
from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.regularization import groups
from hba.regularization.groups import label_smoothing
from hba.regularization.regularizer import Hyperparameter, Regularizer
from hba.schedule.schedule import Schedule
from hba.tasks import Classification
from hba.training.augmentation import ScheduleAugmentation
from hba.training.custom_network import CustomNetwork
from hba.training.trainer import train

SETTINGS: dict[str, Any] = {
    "data": "tiny",
    "model": "wrn-10-1",
    "epochs": EPOCHS,
    "batch_size": BATCH,
    "device": "cpu",
    "learning_rate": 0.01,
    "weight_decay": 0.01,
}
SMOOTHING = Hyperparameter("label_smoothing", 0.0, 1.0, 0.05)


class Watched(nn.Module):
    """Keeps the rate of its dropout and what it is given, in each training pass."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3 * 64, 2)
        self.dropout = nn.Dropout(0.25)
        self.rates: list[float] = []
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.rates.append(self.dropout.p)
            self.seen.append(x.detach().clone())
        return torch.as_tensor(self.linear(self.dropout(x.flatten(1))))


def schedule_of(
    rows: list[list[float]],
    *regularizers: Hyperparameter,
    operations: tuple[str, ...] = (),
) -> Schedule:
    space = SearchSpace(
        tuple(OPERATIONS[name] for name in operations),
        copies=1,
        count_probabilities=(0.0, 1.0) if operations else (1.0,),
        regularizers=regularizers,
    )
    return Schedule(space, np.array(rows))


def train_network(
    schedule: Schedule | None, network: nn.Module, **settings: Any
) -> Any:
    torch.manual_seed(0)
    config = EvaluationConfig.make({**SETTINGS, **settings})
    return train(
        config,
        tiny_data(),
        ScheduleAugmentation(schedule),
        0,
        own_network=CustomNetwork(network),
    ).network


def weights(network: nn.Module) -> Tensor:
    return torch.cat(
        [parameter.detach().flatten() for parameter in network.parameters()]
    )


def make_network() -> Watched:
    torch.manual_seed(1)
    return Watched()


def test_label_smoothing_is_that_of_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    network = train_network(schedule_of([[0.3]], SMOOTHING), make_network())

    def smoothed_loss(_: Classification, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits, labels, label_smoothing=0.3)

    monkeypatch.setattr(Classification, "loss", smoothed_loss)
    torch.testing.assert_close(
        weights(network), weights(train_network(None, make_network()))
    )


@pytest.mark.parametrize("several", [False, True])
def test_label_smoothing_adds_what_even_targets_cost_more(several: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(6, 4, generator=generator)
    value = torch.rand(6, generator=generator)
    if several:
        labels = torch.rand(6, 4, generator=generator) < 0.5
        smoothed = (1 - value)[:, None] * labels + value[:, None] / 2
        losses = F.binary_cross_entropy_with_logits(
            logits, smoothed, reduction="none"
        ).mean(1)
        plain = F.binary_cross_entropy_with_logits(
            logits, labels.float(), reduction="none"
        ).mean(1)
    else:
        labels = torch.tensor([0, 1, 2, 3, 0, 1])
        image_losses = [
            F.cross_entropy(row[None], label[None], label_smoothing=float(smoothing))
            for row, label, smoothing in zip(logits, labels, value, strict=True)
        ]
        losses = torch.stack(image_losses)
        plain = F.cross_entropy(logits, labels, reduction="none")
    torch.testing.assert_close(
        label_smoothing(logits, labels, value=value), losses - plain
    )


def test_a_regularizer_of_ones_own_is_tuned_kept_and_replayed_in_other_processes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(groups, "REGULARIZERS", dict(groups.REGULARIZERS))
    strength = Hyperparameter("entropy_bonus", 0.0, 1.0, 0.1)

    def bonus(logits: Tensor, labels: Tensor, *, value: Tensor) -> Tensor:
        probabilities = logits.softmax(1)
        return value * (probabilities * logits.log_softmax(1)).sum(1)

    hba.register_regularizer(Regularizer("entropy_bonus", (strength,), "loss", bonus))
    settings: dict[str, Any] = {"epochs": 2, "batch_size": BATCH, "device": "cpu"}
    data = SearchData(
        "tiny",
        ("left", "right"),
        two_sides(N_TRAIN, seed=0),
        two_sides(N_TRAIN, seed=1),
    )
    network = nn.Sequential(nn.Flatten(), nn.Linear(192, 4), nn.ReLU(), nn.Linear(4, 2))
    result = hba.search(
        data,
        network=network,
        tune="entropy-bonus",
        algorithm="hba",
        sharing="all",
        **settings,
    )
    assert result.schedule is not None
    assert result.schedule.space.names == ("entropy_bonus",)
    schedule = schedule_of([[0.2], [0.4]], strength)
    schedule.save(tmp_path / "policy.json")
    loaded = Schedule.load(tmp_path / "policy.json")
    assert loaded.space == schedule.space
    rows = [
        hba.evaluate(
            loaded,
            tiny_data(),
            network=make_network(),
            against=["none"],
            seeds=1,
            jobs=jobs,
            **settings,
        ).rows[0]
        for jobs in (1, 2)
    ]
    assert rows[0].test_error_percent == rows[1].test_error_percent
