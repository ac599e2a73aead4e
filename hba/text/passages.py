"""A text in passages: columns of it side by side, so many words at a time, with the hidden state carried on."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hba.errors import SettingsError

StateOf = Callable[[int], Tensor]
"""Of a network, the hidden state that so many columns begin with; the columns are its second dimension from the end."""


@dataclass(frozen=True)
class Passage:
    """tokens (B, T): of B columns. state: hidden, as the passage before left it. It has the length B."""

    tokens: Tensor
    state: Tensor

    def __len__(self) -> int:
        return len(self.tokens)


class Prediction(NamedTuple):
    """What a language model makes of a passage: logits (B, T, V) of the next word; states (B, T, H) of the last layer;
    what dropout leaves of them (B, T, H); the hidden state behind the passage.
    """

    logits: Tensor
    states: Tensor
    dropped: Tensor
    state: Tensor


class TokenStream:
    """Endless passages of a text, from its beginning to its end and again, each with the words that follow.

    The text is cut into batch_size columns of equal length, the rest dropped. A passage has `length` words of each; the
    last, shorter one of a pass is dropped. The hidden state is what `carry` was told last, and the network's first at
    the beginning of a pass. All of it can be saved and restored. name: of the text, in an error.
    """

    def __init__(self, tokens: Tensor, batch_size: int, length: int, state_of: StateOf, name: str = "a text") -> None:
        self.columns = columns_of(tokens, batch_size)
        self.batch_size, self.length, self.state_of = batch_size, length, state_of
        self.batches_per_pass = (self.columns.shape[1] - 1) // length
        if self.batches_per_pass < 1:
            raise SettingsError(
                f"{name} must have at least {batch_size * (length + 1)} words for {batch_size} columns of {length} "
                f"words and one more, got {len(tokens)}; lower batch_size or sequence_length"
            )
        self.position = 0
        self.state = state_of(batch_size)

    def next(self) -> tuple[Passage, Tensor]:
        """A passage and the words (B, T) that follow its words."""
        if self.position == self.batches_per_pass:
            self.position, self.state = 0, self.state_of(self.batch_size)
        start = self.position * self.length
        found = self.columns[:, start : start + self.length + 1]
        self.position += 1
        return Passage(found[:, :-1], self.state), found[:, 1:]

    def carry(self, state: Tensor) -> None:
        """The next passage begins with this hidden state, without its past."""
        self.state = state.detach()

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position, "state": self.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position, self.state = state["position"], state["state"].to(self.columns.device)


def columns_of(tokens: Tensor, n_columns: int) -> Tensor:
    """The text (N,) in order as (n_columns, N // n_columns), a column of it in each row."""
    n_rows = len(tokens) // n_columns
    return tokens[: n_rows * n_columns].view(n_columns, n_rows)


def once(tokens: Tensor, n_columns: int, length: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Words (B, T) and those that follow (B, T), from the beginning to the end; the last piece may be shorter."""
    columns = columns_of(tokens, n_columns)
    for start in range(0, columns.shape[1] - 1, length):
        found = columns[:, start : start + length + 1]
        yield found[:, :-1], found[:, 1:]


def zero_state(n_layers: int, n_columns: int, width: int, device: torch.device) -> Tensor:
    """Hidden state and cell of each layer, (2, layers, B, H)."""
    return torch.zeros(2, n_layers, n_columns, width, device=device)
