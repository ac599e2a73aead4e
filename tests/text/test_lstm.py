"""The language model, beside PyTorch's LSTM with the same weights."""

import pytest
import torch
from small_texts import small_network
from torch import nn

from hba.text.config import DROPOUTS
from hba.text.lstm import LstmLanguageModel
from hba.text.reader import Passage

WIDTH = 4
N_WORDS = 12
COLUMNS = 3
LENGTH = 6


def pytorchs(network: LstmLanguageModel) -> nn.LSTM:
    """The same layers; of PyTorch's two biases one is zero."""
    reference = nn.LSTM(WIDTH, WIDTH, network.n_layers, batch_first=True)
    with torch.no_grad():
        for number in range(network.n_layers):
            parameters = {
                name.removesuffix(f"_l{number}"): parameter
                for name, parameter in reference.named_parameters()
            }
            parameters["weight_ih"].copy_(
                network.get_parameter(f"layers.{number}.inputs.weight")
            )
            parameters["weight_hh"].copy_(
                network.get_parameter(f"layers.{number}.recurrent.weight")
            )
            parameters["bias_ih"].copy_(
                network.get_parameter(f"layers.{number}.inputs.bias")
            )
            parameters["bias_hh"].zero_()
    return reference


def some_passage(n_layers: int = 2, seed: int = 0) -> Passage:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(N_WORDS, (COLUMNS, LENGTH), generator=generator)
    return Passage(
        tokens, torch.randn(2, n_layers, COLUMNS, WIDTH, generator=generator)
    )


def check_against(
    reference: nn.LSTM,
    network: LstmLanguageModel,
    passage: Passage,
) -> None:
    prediction = network(passage)
    x = network.embedding.weight[passage.tokens]
    before = (passage.state[0].contiguous(), passage.state[1].contiguous())
    states, (last, cell) = reference(x, before)
    torch.testing.assert_close(prediction.states, states)
    torch.testing.assert_close(passage.last_state, torch.stack([last, cell]))
    torch.testing.assert_close(
        prediction.logits, states @ network.decoder.weight.T + network.decoder.bias
    )


@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_in_eval_mode_it_is_pytorchs_lstm(n_layers: int) -> None:
    network = small_network(n_layers).eval()
    passage = some_passage(n_layers)
    for name in DROPOUTS:
        if hasattr(network, name):
            network.get_submodule(name).p = 0.5  # type: ignore[assignment]
    check_against(pytorchs(network), network, passage)
    prediction = network(passage)
    assert torch.equal(prediction.dropped, prediction.states)


@pytest.mark.parametrize(
    ("name", "dropped"),
    [("weights", ("weight_hh_l0", "weight_hh_l1")), ("hidden", ("weight_ih_l1",))],
)
def test_dropout_of_weights_and_hidden_states_acts_where_zeros_in_pytorchs_lstm_would(
    name: str, dropped: tuple[str, ...]
) -> None:
    """Everything is dropped: the recurrent weights of all layers, or the states between
    two layers.
    """
    network = small_network().train()
    passage = some_passage()
    network.get_submodule(name).p = 1.0  # type: ignore[assignment]
    reference = pytorchs(network)
    with torch.no_grad():
        for dropped_name in dropped:
            reference.get_parameter(dropped_name).zero_()
    check_against(reference, network, passage)


def test_output_dropout_acts_behind_the_last_layer_not_on_what_is_carried() -> None:
    network = small_network().train()
    passage = some_passage()
    network.output.p = 1.0
    prediction = network(passage)
    other_passage = some_passage()
    expected = small_network().eval()(other_passage)
    assert torch.equal(prediction.states, expected.states)
    assert torch.equal(passage.next_state, other_passage.next_state)
    assert not prediction.dropped.any()
    torch.testing.assert_close(
        prediction.logits, network.decoder.bias.expand(COLUMNS, LENGTH, -1)
    )
