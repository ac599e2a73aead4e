"""The LSTM language model on which STN (MacKay et al. 2019) tunes regularisation, and
its dropouts.

symbol       in the code                          shape
x_t, h_t     words and states of a layer          (B, H)
c_t          cell                                 (B, H)
i, f, g, o   gates, in PyTorch's order            (B, H) each

It consists of linear layers, because PyTorch's own LSTM has neither hyper-layers nor
dropout of its recurrent weights. Dropout modules are named after what they drop: words,
input, hidden, output, weights (STN, section 4.2). Each may have its own rate for each
column of a batch, except for the weights, which have one rate for the whole batch.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from hba.hypernet.dropout import RatedDropout, scaled_mask
from hba.tasks.language import Prediction
from hba.text.reader import Passage, columns_of

MEASURE_COLUMNS = 10
"""Number of columns in which a text is measured in parallel. Each begins with a zero
state.
"""
MOST_NATS = 700.0
"""The perplexity of a larger loss would not be finite."""
EMBEDDING_BOUND = 0.1
"""Word vectors are initialised from U(-0.1, 0.1), as in Merity et al. 2018; linear
layers as in PyTorch.
"""
WEIGHTS = ("weight", "weight_0", "weight_U")
"""Matrices (outputs, inputs) of a linear layer, and of the hyper-layer that replaces
it.
"""


class VariationalDropout(RatedDropout):
    """One mask for all words of a passage: x (B, T, H), drawn for B and H. Ref: Gal and
    Ghahramani 2016.
    """

    def dropped(self, x: Tensor, *other_inputs: Any, rate: Tensor) -> Tensor:
        return x * scaled_mask((len(x), 1, x.shape[2]), rate.to(x).view(-1, 1, 1))


class EmbeddingDropout(RatedDropout):
    """Drops words wherever they occur in a passage: x (B, T, H) of tokens (B, T). Each
    word has one random number for the whole batch, which is compared with each column's
    rate. Ref: Gal and Ghahramani 2016.
    """

    def __init__(self, n_words: int, p: float = 0.0) -> None:
        super().__init__(p)
        self.n_words = n_words

    def dropped(self, x: Tensor, *other_inputs: Any, rate: Tensor) -> Tensor:
        (tokens,) = other_inputs
        rate = rate.to(x).view(-1, 1)
        kept = torch.rand(self.n_words, device=x.device, dtype=x.dtype)[tokens] >= rate
        return x * (kept / (1 - rate).clamp(min=torch.finfo(x.dtype).eps)).unsqueeze(2)


class WeightDropout(RatedDropout):
    """DropConnect on a linear layer, or the hyper-layer that replaces it. Returns the
    layer as a function with the same dropped weights for all words of a passage. Ref:
    Wan et al. 2013; Merity et al. 2018.
    """

    of_batch = True

    def dropped(
        self, x: nn.Module, *other_inputs: Any, rate: Tensor
    ) -> Callable[[Tensor], Tensor]:
        weights = {
            name: parameter
            for name, parameter in x.named_parameters()
            if name in WEIGHTS
        }
        first = next(iter(weights.values()))
        mask = scaled_mask(first.shape, rate.flatten()[0].to(first))
        masked = {name: weight * mask for name, weight in weights.items()}
        return lambda inputs: functional_call(x, masked, (inputs,))


class LstmLayer(nn.Module):
    """Both matrices hold all four gates, as in PyTorch's LSTM, with one bias instead of
    two.
    """

    def __init__(self, n_inputs: int, width: int) -> None:
        super().__init__()
        self.inputs = nn.Linear(n_inputs, 4 * width)
        self.recurrent = nn.Linear(width, 4 * width, bias=False)

    def forward(
        self,
        x: Tensor,
        state: Tensor,
        cell: Tensor,
        recurrent: Callable[[Tensor], Tensor],
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run the layer over the words of a passage.

        Args:
            x: Inputs (B, T, n_inputs).
            state: State (B, H) before the first word.
            cell: Cell (B, H) before the first word.
            recurrent: self.recurrent, or the same after dropout.

        Returns:
            States (B, T, H), and the last state and cell.
        """
        states = []
        for of_input in self.inputs(x).unbind(1):
            i, f, g, o = (of_input + recurrent(state)).chunk(4, dim=1)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            state = o.sigmoid() * cell.tanh()
            states.append(state)
        return torch.stack(states, dim=1), state, cell


class LstmLanguageModel(nn.Module):
    """A language model of LSTM layers. Embedding and decoder do not share weights.

    Args:
        n_words: Number of words of the vocabulary.
        width: Size of word vectors and of layers.
        n_layers: Number of layers.
    """

    def __init__(self, n_words: int, width: int = 650, n_layers: int = 2) -> None:
        super().__init__()
        self.width = width
        self.n_layers = n_layers
        self.words = EmbeddingDropout(n_words)
        self.input = VariationalDropout()
        if n_layers > 1:
            self.hidden = VariationalDropout()
        self.output = VariationalDropout()
        self.weights = WeightDropout()
        self.embedding = nn.Embedding(n_words, width)
        self.layers = nn.ModuleList(LstmLayer(width, width) for _ in range(n_layers))
        self.decoder = nn.Linear(width, n_words)
        nn.init.uniform_(self.embedding.weight, -EMBEDDING_BOUND, EMBEDDING_BOUND)

    def forward(self, passage: Passage) -> Prediction:
        """Predict the following words of a passage of B columns of T words, and keep
        the last hidden state in it.
        """
        x = self.input(self.words(self.embedding(passage.tokens), passage.tokens))
        behind = []
        for number, layer in enumerate(self.layers):
            if number:
                x = self.hidden(x)
            assert isinstance(layer, LstmLayer)
            x, state, cell = layer(
                x, *passage.state[:, number], self.weights(layer.recurrent)
            )
            behind.append(torch.stack([state, cell]))
        passage.end_in(torch.stack(behind, dim=1))
        dropped = self.output(x)
        return Prediction(self.decoder(dropped), x, dropped)

    def zero_state(self, n_columns: int) -> Tensor:
        """Hidden state and cell of each layer, (2, layers, B, H), that the first
        passage of a text begins with.
        """
        return torch.zeros(
            2, self.n_layers, n_columns, self.width, device=self.embedding.weight.device
        )


@torch.no_grad()
def measured_loss(network: LstmLanguageModel, tokens: Tensor, length: int) -> float:
    """Mean loss in nats per word of a text.

    The first word of each column and the division's remainder are left out. The network
    is measured in eval mode, and its mode is restored. The host waits for the device
    only at the end.

    Args:
        network: The language model.
        tokens: Words of the text (N,).
        length: Words of a passage.
    """
    was_training = network.training
    network.eval()
    columns = columns_of(tokens, max(1, min(MEASURE_COLUMNS, len(tokens) // 2)))
    state = network.zero_state(len(columns))
    total = torch.zeros((), device=tokens.device, dtype=torch.float64)
    for start in range(0, columns.shape[1] - 1, length):
        words = columns[:, start : start + length + 1]
        passage = Passage(words[:, :-1], state)
        prediction = network(passage)
        total += F.cross_entropy(
            prediction.logits.flatten(0, 1), words[:, 1:].flatten(), reduction="sum"
        )
        state = passage.next_state
    network.train(was_training)
    return float(total) / columns[:, 1:].numel()


def in_words(perplexity: float) -> str:
    return f"{perplexity:.1f}" if perplexity < 1e6 else f"{perplexity:.1e}"


def perplexity(loss: float) -> float:
    """exp of a mean loss in nats; NaN stays NaN."""
    return math.exp(min(loss, MOST_NATS))
