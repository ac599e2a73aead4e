"""A folder of text, read as numbers, and the passages that a language model is trained
on.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hba.errors import DataError, SettingsError
from hba.utils.files import reason_of

FILES: Mapping[str, str] = {
    "train": "train.txt",
    "valid": "valid.txt",
    "test": "test.txt",
}
END_OF_LINE = "<eos>"
UNKNOWN = "<unk>"


@dataclass(frozen=True)
class Vocabulary:
    """The words that a language model knows."""

    words: tuple[str, ...]
    """The words by number. The first, UNKNOWN, stands for all words outside of the
    vocabulary.
    """

    @staticmethod
    def of(words: Iterable[str], size: int) -> "Vocabulary":
        """UNKNOWN, END_OF_LINE, and the most frequent words; equally frequent ones in
        alphabetical order.
        """
        counts = Counter(words)
        by_frequency = sorted(
            counts.keys() - {UNKNOWN, END_OF_LINE},
            key=lambda word: (-counts[word], word),
        )
        return Vocabulary((UNKNOWN, END_OF_LINE, *by_frequency)[:size])

    def __len__(self) -> int:
        return len(self.words)

    def encoded(self, words: Sequence[str]) -> Tensor:
        """Numbers (N,) of the words, int64."""
        numbers = {word: number for number, word in enumerate(self.words)}
        return torch.tensor([numbers.get(word, 0) for word in words], dtype=torch.int64)


@dataclass(frozen=True)
class Corpus:
    """The texts that were read, by the names of FILES."""

    path: Path
    """The folder."""
    vocabulary: Vocabulary
    """The words that are known."""
    tokens: Mapping[str, Tensor]
    """Words (N,) of each text, in their order, int64."""
    sha256: Mapping[str, str]
    """SHA-256 of each file."""

    @staticmethod
    def read(
        path: str | Path, vocabulary_size: int, parts: Sequence[str] = tuple(FILES)
    ) -> "Corpus":
        """Read texts of a folder.

        Every line, even an empty one, ends in END_OF_LINE.

        Args:
            path: The folder.
            vocabulary_size: Size of the vocabulary, which is that of the training text.
            parts: Names of the texts; the training text must be among them.

        Raises:
            DataError: For a file that is not UTF-8 or has no words.
        """
        read = {split: _words(Path(path) / FILES[split]) for split in parts}
        vocabulary = Vocabulary.of(read["train"][0], vocabulary_size)
        tokens = {
            split: vocabulary.encoded(words) for split, (words, _) in read.items()
        }
        return Corpus(
            Path(path),
            vocabulary,
            tokens,
            {split: sha256 for split, (_, sha256) in read.items()},
        )


def _words(path: Path) -> tuple[list[str], str]:
    """All words of a file, and its SHA-256."""
    try:
        content = path.read_bytes()
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as UTF-8: {reason_of(error)}") from None
    # Lines end only at \n, as in other tools, and not at every character that Unicode
    # calls the end of a line.
    lines = text.removesuffix("\n").split("\n")
    words = [word for line in lines for word in (*line.split(), END_OF_LINE)]
    if all(word == END_OF_LINE for word in words):
        raise DataError(f"{path} must hold words separated by spaces, but has none")
    return words, hashlib.sha256(content).hexdigest()


@dataclass(eq=False)
class Passage:
    """Words of a text in B columns. Its length is B."""

    tokens: Tensor
    """The words (B, T)."""
    state: Tensor
    """The hidden state before the first word."""
    last_state: Tensor | None = None
    """The hidden state after the last word, when the network first read the passage;
    None before.
    """

    def end_in(self, state: Tensor) -> None:
        """Keep the hidden state after the last word, detached from its graph.

        Only the first call has an effect: some learning rules read a passage a second
        time, with weights for another lambda.
        """
        if self.last_state is None:
            self.last_state = state.detach()

    @property
    def next_state(self) -> Tensor:
        """The hidden state before the next passage. Until this one is read, its own."""
        return self.state if self.last_state is None else self.last_state

    def __len__(self) -> int:
        return len(self.tokens)


class TokenStream:
    """Endless passages of a text, each with the words that follow.

    The text is cut into batch_size columns of equal length, and these into passages of
    `length` words; rests are dropped. Each passage begins with the hidden state that
    the network had after the previous one.

    Args:
        tokens: Words of the text (N,).
        batch_size: Number of columns.
        length: Words of a passage.
        state_of: Makes the hidden state at the beginning, for batch_size columns.
        name: Name of the text in errors.
    """

    def __init__(
        self,
        tokens: Tensor,
        batch_size: int,
        length: int,
        state_of: Callable[[int], Tensor],
        name: str = "a text",
    ) -> None:
        self.columns = columns_of(tokens, batch_size)
        self.batch_size = batch_size
        self.length = length
        self.state_of = state_of
        self.batches_per_pass = (self.columns.shape[1] - 1) // length
        if self.batches_per_pass < 1:
            words = (
                f"{batch_size * (length + 1)} words for {batch_size} columns of"
                f" {length} words and one more"
            )
            remedy = f"got {len(tokens)}; lower batch_size or sequence_length"
            raise SettingsError(f"{name} must have at least {words}, {remedy}")
        self.position = 0
        self._begin(state_of(batch_size))

    @property
    def state(self) -> Tensor:
        """The hidden state before the next passage."""
        return self.passage.next_state

    def next(self) -> tuple[Passage, Tensor]:
        """A passage and the words (B, T) that follow its words."""
        if self.position == self.batches_per_pass:
            self.position = 0
            self._begin(self.state_of(self.batch_size))
        start = self.position * self.length
        window = self.columns[:, start : start + self.length + 1]
        self.position += 1
        self.passage = Passage(window[:, :-1], self.state)
        return self.passage, window[:, 1:]

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position, "state": self.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position = state["position"]
        self._begin(state["state"].to(self.columns.device))

    def _begin(self, state: Tensor) -> None:
        """Let the next passage begin with this hidden state."""
        self.passage = Passage(self.columns[:, :0], state)


def columns_of(tokens: Tensor, n_columns: int) -> Tensor:
    """Reshape the text (N,) to (n_columns, N // n_columns), with one column of the text
    in each row.
    """
    return tokens[: len(tokens) // n_columns * n_columns].view(n_columns, -1)
