"""The LSTM language model on which STN (MacKay et al. 2019) tunes regularisation, of linear layers throughout.

symbol       in the code                          shape
x_t, h_t     words and states of a layer          (B, H)
c_t          cell                                 (B, H)
i, f, g, o   gates, in PyTorch's order            (B, H) each

PyTorch's own LSTM has neither hyper-layers nor dropout of its recurrent weights. Dropout modules, of rate 0 until they
are given another, are named by what they drop: words, input, hidden, output, weights (STN, section 4.2).
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from hba.text.dropouts import EmbeddingDropout, VariationalDropout, WeightDropout
from hba.text.passages import Passage, Prediction, zero_state

EMBEDDING_BOUND = 0.1
"""Words begin in U(-0.1, 0.1), as in Merity et al. 2018; linear layers as PyTorch starts them."""


class LstmLayer(nn.Module):
    """One layer; both matrices hold all four gates, as PyTorch's LSTM has them, with one bias instead of two."""

    def __init__(self, n_inputs: int, width: int) -> None:
        super().__init__()
        self.inputs = nn.Linear(n_inputs, 4 * width)
        self.recurrent = nn.Linear(width, 4 * width, bias=False)

    def forward(
        self, x: Tensor, state: Tensor, cell: Tensor, recurrent: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """x (B, T, n_inputs), state and cell (B, H) to states (B, T, H), and the last state and cell.

        recurrent: self.recurrent, or what dropout leaves of it.
        """
        states = []
        for of_input in self.inputs(x).unbind(1):
            i, f, g, o = (of_input + recurrent(state)).chunk(4, dim=1)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            state = o.sigmoid() * cell.tanh()
            states.append(state)
        return torch.stack(states, dim=1), state, cell


class LstmLanguageModel(nn.Module):
    """n_words: of the vocabulary. width: of words and of layers. Words and decoder have weights of their own."""

    def __init__(self, n_words: int, width: int = 650, n_layers: int = 2) -> None:
        super().__init__()
        self.width, self.n_layers = width, n_layers
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
        """Of a passage of B columns of T words."""
        x = self.input(self.words(self.embedding(passage.tokens), passage.tokens))
        states_behind, cells_behind = [], []
        for number, layer in enumerate(self.layers):
            if number:
                x = self.hidden(x)
            assert isinstance(layer, LstmLayer)
            x, state, cell = layer(x, *passage.state[:, number], self.weights(layer.recurrent))
            states_behind.append(state)
            cells_behind.append(cell)
        dropped = self.output(x)
        behind = torch.stack([torch.stack(states_behind), torch.stack(cells_behind)])
        return Prediction(self.decoder(dropped), x, dropped, behind)

    def zero_state(self, n_columns: int) -> Tensor:
        """What the first passage of a text begins with."""
        return zero_state(self.n_layers, n_columns, self.width, self.embedding.weight.device)
