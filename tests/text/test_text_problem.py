"""What a search on text keeps the same: noise, penalty, steps, and the response in a
linearized language model.
"""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_texts import SMALL, small_network, training_config, write_texts
from torch import Tensor, nn

from hba.algorithms.responses import TrainingBatch, linearized
from hba.hypernet import HyperNetwork
from hba.tasks import Language
from hba.tasks.language import Prediction, activation
from hba.text.config import DROPOUTS, TextSearchConfig
from hba.text.problem import ClippedSGD, TextProblem, optimizer_of
from hba.text.reader import Corpus, Passage

ALL = (
    *(f"dropout.{name}" for name in DROPOUTS),
    "activation.alpha",
    "activation.beta",
    "weight_decay",
)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return write_texts(tmp_path)


def task_of(texts: Path, **settings: Any) -> TextProblem:
    config = TextSearchConfig.make({**SMALL, "data": str(texts), **settings})
    corpus = Corpus.read(texts, config.vocabulary_size, ("train", "valid"))
    return TextProblem.of(config, corpus, torch.device("cpu"))


def test_the_space_has_what_is_tuned_and_nothing_else(texts: Path) -> None:
    for tune, names in (
        ("dropout,activation,weight-decay", ALL),
        ("activation,dropout", ALL[:-1]),
        ("weight-decay,activation", ALL[-3:]),
    ):
        space = task_of(texts, tune=tune).space
        assert sorted(space.names) == sorted(names)
        assert space.operations == ()


def test_what_is_tuned_begins_where_it_says(texts: Path) -> None:
    task = task_of(texts, tune="dropout,activation,weight-decay", weight_decay=1e-4)
    values = task.space.decode(task.config.algorithm.start(task).double()).tolist()
    expected = {**dict.fromkeys(ALL, 0.05), "weight_decay": 1e-4}
    assert dict(zip(task.space.names, values, strict=True)) == pytest.approx(
        expected, rel=1e-5
    )


def test_noise_of_what_has_one_rate_for_a_batch_is_the_same_in_all_rows(
    texts: Path,
) -> None:
    task = task_of(texts)
    column = task.space.names.index("dropout.weights")
    noise = task.noise(6, torch.Generator().manual_seed(0))
    equal = (noise == noise[:1]).all(0)
    assert equal.nonzero().flatten().tolist() == [column]
    other_columns = [number for number in range(task.space.n) if number != column]
    drawn = torch.randn(6, task.space.n, generator=torch.Generator().manual_seed(0))
    assert torch.equal(noise[:, other_columns], drawn[:, other_columns])
    assert noise[:, column].unique().tolist() == drawn[:1, column].tolist()


def test_the_penalty_is_that_of_a_loop_with_values_of_its_own_for_each_column(
    texts: Path,
) -> None:
    """alpha times the mean square of dropped states, and beta times that of the moves
    of states from word to word.
    """
    task = task_of(texts, tune="activation")
    generator = torch.Generator().manual_seed(0)
    states, dropped = torch.randn(2, 3, 5, 4, generator=generator, dtype=torch.float64)
    alpha, beta = torch.rand(2, 3, generator=generator, dtype=torch.float64)
    expected = []
    for column in range(3):
        squares = sum(
            float(dropped[column, t, unit]) ** 2 for t in range(5) for unit in range(4)
        )
        moves = sum(
            float(states[column, t + 1, unit] - states[column, t, unit]) ** 2
            for t in range(4)
            for unit in range(4)
        )
        expected.append(float(alpha[column] * squares / 20 + beta[column] * moves / 16))
    prediction = Prediction(torch.randn(3, 5, 12), states, dropped)
    following = torch.zeros(3, 5)
    terms = activation(prediction, following, alpha=alpha, beta=beta)
    assert terms.tolist() == pytest.approx(expected)
    values_by_name = {"activation.alpha": alpha, "activation.beta": beta}
    values = torch.stack([values_by_name[name] for name in task.space.names], dim=1)
    penalty = task.regularization.penalty(prediction, following, values)
    assert float(penalty) == pytest.approx(np.mean(expected))
    assert task.regularization.has_penalty
    assert not task_of(texts, tune="dropout").regularization.has_penalty


@pytest.mark.parametrize(("clip_norm", "share"), [(0.5, 0.1), (10.0, 1.0)])
def test_a_step_goes_along_a_gradient_that_is_no_longer_than_its_limit(
    clip_norm: float, share: float
) -> None:
    """Both weights together have a gradient of length 5, with that of their decay."""
    weights = [
        nn.Parameter(torch.tensor([1.0, 2.0])),
        nn.Parameter(torch.tensor([[3.0]])),
    ]
    optimizer = ClippedSGD(
        weights, learning_rate=2.0, weight_decay=0.1, clip_norm=clip_norm
    )
    weights[0].grad = torch.tensor([2.9, -0.2])
    weights[1].grad = torch.tensor([[3.7]])
    optimizer.step()
    assert weights[0].tolist() == pytest.approx([1 - 2 * 3 * share, 2], rel=1e-5)
    assert weights[1].tolist() == [pytest.approx([3 - 2 * 4 * share], rel=1e-5)]
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1]


@pytest.mark.parametrize(
    ("algorithm", "together"), [("stn", True), ("delta-stn", False)]
)
def test_the_response_is_clipped_by_itself_where_it_has_a_loss_of_its_own(
    algorithm: str, together: bool, texts: Path
) -> None:
    task = task_of(texts, algorithm=algorithm)
    optimizer, _ = task.optimizer_of([nn.Parameter(torch.zeros(1))])
    assert isinstance(optimizer, ClippedSGD)
    assert optimizer.together is together


@pytest.mark.parametrize("weight_decay", [1e-4, 0.08])
def test_tuned_weight_decay_is_the_same_training_in_a_search_and_behind_it(
    weight_decay: float, texts: Path
) -> None:
    """Without noise, a step of the search on the weights is one of an ordinary
    training, the gradient being clipped.
    """
    settings = {
        "algorithm": "delta-stn",
        "sigma": 0.0,
        "sigma_entropy": None,
        "weight_decay": weight_decay,
    }
    task = task_of(texts, tune="weight-decay", **settings)
    algorithm = task.config.algorithm
    value = task.space.regularizers[0].initial
    assert value == weight_decay
    network = copy.deepcopy(task.network)
    state = algorithm.begin(task, lambda _: task.network)
    optimizer, _ = optimizer_of(task.config, network.parameters())
    task.regularization.give(network, optimizer, {"weight_decay": value})
    stream = task.train_stream()
    for _ in range(3):
        algorithm.train_step(task, state)
        passage, following = stream.next()
        prediction = network(passage)
        optimizer.zero_grad()
        Language().loss(prediction, following).backward()
        assert (
            sum(
                float(parameter.grad.square().sum())
                for parameter in network.parameters()
                if parameter.grad is not None
            )
            > 0.01
        )
        optimizer.step()
    for parameter, expected in zip(
        state.to_module().parameters(), network.parameters(), strict=True
    ):
        torch.testing.assert_close(parameter, expected, rtol=1e-4, atol=1e-6)


def test_the_learning_rate_takes_a_quarter_after_epochs_without_a_lower_loss() -> None:
    optimizer, schedule = optimizer_of(
        training_config(patience_epochs=2), [nn.Parameter(torch.zeros(1))]
    )
    rates = []
    for loss in (3.0, 2.0, 2.5, 2.0, 1.9, 1.9, 1.9):
        optimizer.step()
        schedule.step()
        schedule.observe(loss)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([5, 5, 5, 1.25, 1.25, 1.25, 0.3125])


def test_a_training_step_carries_the_state_to_the_passage_that_follows(
    texts: Path,
) -> None:
    task = task_of(texts, algorithm="delta-stn", warm_up_epochs=0, train_steps=1)
    algorithm: Any = task.config.algorithm
    state = algorithm.begin(task, lambda _: task.network)
    streams = (state.train_stream, state.mover.val_stream)
    torch.manual_seed(0)
    for _ in range(2):
        before = [stream.state.clone() for stream in streams]
        algorithm.step(task, state)
        for stream, old in zip(streams, before, strict=True):
            assert not torch.equal(stream.state, old)
            assert not stream.state.requires_grad


def test_the_linearized_language_model_is_that_of_finite_differences() -> None:
    """Every layer responds to lambda, around a center that is not zero."""
    n_hyperparameters = 3
    n_columns = 4
    length = 5
    small = 1e-5
    hypernetwork = (
        HyperNetwork(small_network(), n_hyperparameters, "every").double().train()
    )
    generator = torch.Generator().manual_seed(1)
    for parameter in hypernetwork.response_parameters():
        nn.init.normal_(parameter, std=0.3, generator=generator)
    hypernetwork.center.normal_(generator=generator)
    passage = Passage(
        torch.randint(12, (n_columns, length), generator=generator),
        torch.randn(2, 2, n_columns, 4, generator=generator, dtype=torch.float64),
    )
    rows = hypernetwork.center + torch.randn(
        n_columns, n_hyperparameters, generator=generator, dtype=torch.float64
    )
    seen: list[Prediction] = []

    def loss_of(prediction: Prediction, following: Tensor) -> Tensor:
        seen.append(prediction)
        return prediction.logits.square().mean()

    copied = copy.deepcopy(hypernetwork)
    linearized(
        TrainingBatch(
            copied, lambda same, _: same, loss_of, passage, torch.zeros(4), rows
        )
    )
    _, moved = seen
    center = hypernetwork.center
    with torch.no_grad():
        plus, minus = (
            hypernetwork(passage, center + sign * small * (rows - center))
            for sign in (1, -1)
        )
        at_center = hypernetwork(passage, center)
        far = hypernetwork(passage, rows)
    assert isinstance(moved, Prediction)
    for name in Prediction._fields:
        first, second, zeroth = (
            getattr(measured, name) for measured in (plus, minus, at_center)
        )
        expected = zeroth + (first - second) / (2 * small)
        torch.testing.assert_close(getattr(moved, name), expected, rtol=1e-6, atol=1e-7)
        assert not torch.allclose(getattr(far, name), expected, rtol=1e-2), (
            "it is not linear"
        )
