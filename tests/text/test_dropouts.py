"""Dropout of language models: what is dropped together, at which rate, and what is left
in the mean.
"""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hba.hypernet import HyperNetwork, TunedRates
from hba.hypernet.dropout import RatedDropout
from hba.hypernet.layers import HyperLinear, LambdaContext
from hba.text.lstm import EmbeddingDropout, VariationalDropout, WeightDropout

COLUMNS = 3
LENGTH = 5
WIDTH = 2000
RATES = torch.tensor([0.1, 0.5, 0.9])


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def ones() -> Tensor:
    return torch.ones(COLUMNS, LENGTH, WIDTH)


def number_words() -> Tensor:
    """Each column has each of 50 words, in another order."""
    return torch.stack([torch.randperm(50) for _ in range(COLUMNS)])


def test_variational_dropout_has_a_mask_for_all_words_and_another_for_each_column() -> (
    None
):
    dropped = VariationalDropout(0.5).train()(ones())
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    for column, other in ((0, 1), (1, 2)):
        assert (
            0.4 < float((dropped[column, 0] != dropped[other, 0]).float().mean()) < 0.6
        )
    by_column = VariationalDropout().dropped(ones(), rate=RATES)
    torch.testing.assert_close(
        (by_column[:, 0] == 0).float().mean(1), RATES, atol=0.04, rtol=0
    )
    torch.testing.assert_close(by_column.amax((1, 2)), 1 / (1 - RATES))


def test_embedding_dropout_drops_a_word_wherever_it_stands() -> None:
    tokens = torch.randint(50, (COLUMNS, 400))
    dropped = EmbeddingDropout(50, 0.5).train()(torch.ones(COLUMNS, 400, 2), tokens)
    numbers_by_word: dict[int, list[float]] = {}
    for word, numbers in zip(
        tokens.flatten().tolist(), dropped.flatten(0, 1).tolist(), strict=True
    ):
        assert numbers_by_word.setdefault(word, numbers) == numbers
        assert numbers in ([0.0, 0.0], [2.0, 2.0])
    assert 10 < sum(numbers == [0.0, 0.0] for numbers in numbers_by_word.values()) < 40


def test_each_column_of_embedding_dropout_has_the_rate_that_it_is_given() -> None:
    n_words = 4000
    tokens = torch.arange(n_words).expand(COLUMNS, -1)
    dropped = EmbeddingDropout(n_words).dropped(
        torch.ones(COLUMNS, n_words, 1), tokens, rate=RATES
    )[..., 0]
    torch.testing.assert_close((dropped == 0).float().mean(1), RATES, atol=0.04, rtol=0)
    torch.testing.assert_close(dropped.amax(1), 1 / (1 - RATES))
    kept = dropped != 0
    assert (kept[0] | ~kept[1]).all(), (
        "a word that a higher rate keeps is kept at a lower one"
    )
    assert (kept[1] | ~kept[2]).all()


def test_weight_dropout_drops_single_weights_the_same_ones_for_all_words() -> None:
    layer = nn.Linear(40, 50)
    function = WeightDropout(0.25).train()(layer)
    mask = (function(torch.eye(40)) - layer.bias).T.detach() / layer.weight.detach()
    is_dropped = mask.abs() < 1e-4
    torch.testing.assert_close(
        is_dropped.float().mean(), torch.tensor(0.25), atol=0.05, rtol=0
    )
    assert ((mask[~is_dropped] - 4 / 3).abs() < 1e-3).all()
    for _ in range(3):
        x = torch.randn(COLUMNS, 40)
        torch.testing.assert_close(
            function(x), F.linear(x, layer.weight * mask, layer.bias)
        )


def test_weight_dropout_of_a_hyper_layer_masks_weights_and_their_response_alike() -> (
    None
):
    context = LambdaContext()
    layer = HyperLinear(
        nn.Linear(6, 5, bias=False), 2, context, torch.Generator().manual_seed(0)
    )
    nn.init.normal_(layer.weight_V)
    function = WeightDropout().dropped(layer, rate=torch.full((COLUMNS,), 0.5))
    context.lam = torch.zeros(2)
    mask = (function(torch.eye(6)).T / layer.weight_0).detach()
    assert sorted(mask.round(decimals=3).unique().tolist()) == [0.0, 2.0]
    for _ in range(3):
        x = torch.randn(COLUMNS, 6)
        context.lam = torch.randn(COLUMNS, 2)
        expected = [
            F.linear(
                row,
                mask
                * (layer.weight_0 + (layer.weight_V @ lam)[:, None] * layer.weight_U),
            )
            for row, lam in zip(x, context.lam, strict=True)
        ]
        torch.testing.assert_close(function(x), torch.stack(expected))


def all_kinds(rate: float) -> list[tuple[RatedDropout, tuple[Any, ...]]]:
    return [
        (VariationalDropout(rate), (torch.randn(COLUMNS, LENGTH, 7),)),
        (EmbeddingDropout(50, rate), (torch.randn(COLUMNS, 50, 7), number_words())),
        (WeightDropout(rate), (nn.Linear(4, 4, bias=False),)),
    ]


def test_rate_0_and_eval_mode_keep_all_and_draw_nothing_and_rate_1_keeps_none() -> None:
    for rate, training in ((0.0, True), (0.5, False)):
        for dropout, arguments in all_kinds(rate):
            before = torch.get_rng_state()
            assert dropout.train(training)(*arguments) is arguments[0]
            assert torch.equal(torch.get_rng_state(), before)
    for dropout, arguments in all_kinds(1.0):
        output = dropout.train()(*arguments)
        assert not (
            output if isinstance(output, Tensor) else output(torch.randn(2, 4))
        ).any()


class Dropping(nn.Module):
    """Drops, behind layers that answer lambda."""

    def __init__(self, dropout: RatedDropout) -> None:
        super().__init__()
        self.kind = type(dropout)
        self.dropout = dropout
        self.hidden = nn.Linear(6, 5, bias=False)
        self.last = nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        if self.kind is WeightDropout:
            return torch.as_tensor(self.dropout(self.hidden)(x))
        token_numbers = (number_words(),) if self.kind is EmbeddingDropout else ()
        return torch.as_tensor(self.dropout(x, *token_numbers))


def test_a_hypernetwork_drops_by_the_rate_of_each_column_or_of_the_batch() -> None:
    """Its second hyperparameter is the logit of the rate; a plain network of one lambda
    has that rate.
    """
    rows = torch.stack([torch.zeros(COLUMNS), RATES.logit()], dim=1)
    alike = torch.tensor([0.5, 0.3]).logit().expand(6, 2)
    cases: list[tuple[RatedDropout, Tensor, Tensor, Tensor]] = [
        (VariationalDropout(), ones(), rows, RATES),
        (EmbeddingDropout(50), torch.ones(COLUMNS, 50, 1), rows, RATES),
        (WeightDropout(), torch.eye(6), alike, torch.full((6,), 0.3)),
    ]
    for dropout, x, lam, rates in cases:
        hypernetwork = HyperNetwork(
            Dropping(dropout),
            2,
            "every",
            rates=TunedRates({"dropout": 1}, torch.sigmoid),
        )
        hypernetwork.train()
        zeros = torch.stack(
            [(hypernetwork(x, lam) == 0).float().flatten(1).mean(1) for _ in range(200)]
        ).mean(0)
        torch.testing.assert_close(zeros, rates, atol=0.03, rtol=0)
        plain = hypernetwork.to_module(lam[-1]).get_submodule("dropout")
        assert type(plain) is type(dropout)
        assert plain.p == pytest.approx(float(rates[-1]))
        assert dropout.p == 0.0
