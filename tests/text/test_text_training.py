"""An ordinary training of a language model, beside a loop that is written out."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_texts import tokens_of, training_config, write_texts
from torch import Tensor

from hba.policy.space import SearchSpace
from hba.regularization.groups import hyperparameters_of
from hba.schedule.schedule import Schedule
from hba.text.config import DROPOUTS
from hba.text.evaluation import train
from hba.text.lstm import LstmLanguageModel, measured_loss
from hba.text.problem import network_of
from hba.text.reader import Passage
from hba.utils.seeding import derived_seed

COLUMNS = 4
LENGTH = 5
PASSAGES = 14
N_WORDS = 12
SEED = 3
NAMES = (
    *(f"dropout.{name}" for name in DROPOUTS),
    "activation.alpha",
    "activation.beta",
    "weight_decay",
)


def schedule_of(*rows: Mapping[str, float]) -> Schedule:
    """What a row does not name is zero; the least weight decay of a range is not, so it
    must be named.
    """
    groups = ["dropout", "activation"]
    if "weight_decay" in rows[0]:
        groups.append("weight_decay")
    hyperparameters = hyperparameters_of(
        groups, lambda: LstmLanguageModel(N_WORDS, 4), 0.0
    )
    values = [
        [row.get(hyperparameter.name, 0.0) for hyperparameter in hyperparameters]
        for row in rows
    ]
    return Schedule(
        SearchSpace((), count_probabilities=(1.0,), regularizers=hyperparameters),
        np.array(values),
    )


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, Tensor]:
    return tokens_of(write_texts(tmp_path))


def train_on(
    tokens: Mapping[str, Tensor], schedule: Schedule, seed: int = SEED, **settings: Any
) -> tuple[list[float], float]:
    return train(training_config(**settings), tokens, N_WORDS, schedule, seed)


class WrittenOut:
    """SGD with a clipped gradient, and a learning rate of which a plateau leaves a
    quarter.
    """

    def __init__(
        self, tokens: Mapping[str, Tensor], rate: float = 5.0, patience: int = 5
    ) -> None:
        self.tokens = tokens
        self.rate = rate
        self.patience = patience
        self.network = network_of(
            training_config(), N_WORDS, derived_seed(SEED, "an evaluation on text")
        )
        self.losses: list[float] = []
        self.since = 0

    def train(self, rows: Sequence[Mapping[str, float]]) -> list[float]:
        torch.manual_seed(
            derived_seed(SEED, "default generators of an evaluation on text")
        )
        for row in rows:
            for name in DROPOUTS:
                self.network.get_submodule(name).p = row.get(f"dropout.{name}", 0.0)  # type: ignore[assignment]
            self.epoch(row)
            self.measure()
        return self.losses

    def epoch(self, row: Mapping[str, float]) -> None:
        self.network.train()
        columns = self.tokens["train"][: COLUMNS * 75].view(COLUMNS, 75)
        state = torch.zeros(2, 2, COLUMNS, 4)
        for number in range(PASSAGES):
            words = columns[:, LENGTH * number : LENGTH * (number + 1) + 1]
            passage = Passage(words[:, :-1], state)
            prediction = self.network(passage)
            state = passage.next_state
            loss = F.cross_entropy(
                prediction.logits.reshape(-1, N_WORDS), words[:, 1:].reshape(-1)
            )
            loss = (
                loss
                + row.get("activation.alpha", 0.0) * prediction.dropped.pow(2).mean()
            )
            loss = (
                loss
                + row.get("activation.beta", 0.0)
                * prediction.states.diff(dim=1).pow(2).mean()
            )
            self.step(loss, row.get("weight_decay", 0.0))

    def step(self, loss: Tensor, weight_decay: float) -> None:
        weights = list(self.network.parameters())
        loss = loss + weight_decay / 2 * sum(
            weight.square().sum() for weight in weights
        )
        gradients = torch.autograd.grad(loss, weights)
        length = torch.cat([gradient.flatten() for gradient in gradients]).norm()
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                share = min(1.0, 0.25 / (float(length) + 1e-6))
                weight.sub_(self.rate * share * gradient)

    def measure(self) -> None:
        self.losses.append(measured_loss(self.network, self.tokens["valid"], LENGTH))
        self.since = (
            0
            if self.losses[-1] < min([*self.losses[:-1], float("inf")])
            else self.since + 1
        )
        if self.since == self.patience:
            self.since = 0
            self.rate = self.rate / 4


def test_with_rates_of_zero_it_is_a_training_without_regularisation(
    tokens: dict[str, Tensor],
) -> None:
    losses, test_loss = train_on(tokens, schedule_of({}), epochs=3)
    plain = WrittenOut(tokens)
    assert losses == pytest.approx(plain.train([{}] * 3), rel=1e-5)
    assert test_loss == pytest.approx(
        measured_loss(plain.network, tokens["test"], LENGTH), rel=1e-5
    )
    assert losses[-1] < losses[0], "it learns"


@pytest.mark.parametrize("name", NAMES)
def test_each_epoch_is_regularized_by_its_own_row(
    name: str, tokens: dict[str, Tensor]
) -> None:
    strong, least = (0.1, 1e-6) if name == "weight_decay" else (0.6, 0.0)
    rows = [{name: least}, {name: strong}]
    losses = train_on(tokens, schedule_of(*rows), epochs=2)[0]
    assert losses == pytest.approx(WrittenOut(tokens).train(rows), rel=1e-4)
    without = train_on(tokens, schedule_of({name: least}), epochs=2)[0]
    assert losses[0] == without[0]
    assert losses[1] != without[1]


def test_the_learning_rate_waits_for_the_validation_loss(
    tokens: dict[str, Tensor],
) -> None:
    losses = train_on(
        tokens, schedule_of({}), epochs=5, patience_epochs=1, learning_rate=12
    )[0]
    written_out = WrittenOut(tokens, rate=12.0, patience=1)
    assert losses == pytest.approx(written_out.train([{}] * 5), rel=1e-3)
    assert written_out.rate < 12


def test_the_seed_decides_all_and_the_callers_numbers_stay(
    tokens: dict[str, Tensor],
) -> None:
    schedule = schedule_of({"dropout.output": 0.5})
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = train_on(tokens, schedule)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    assert train_on(tokens, schedule) == first
    assert train_on(tokens, schedule, seed=SEED + 1)[0] != first[0]
