"""A folder of text, read as numbers, and the passages that a language model is trained
on.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

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
    """words: by number. The first, UNKNOWN, stands for all words outside of the
    vocabulary.
    """

    words: tuple[str, ...]

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
    """The texts that were read, by the names of FILES. tokens (N,): in their order,
    int64. sha256: of the files.
    """

    path: Path
    vocabulary: Vocabulary
    tokens: Mapping[str, Tensor]
    sha256: Mapping[str, str]

    @staticmethod
    def read(
        path: str | Path, vocabulary_size: int, parts: Sequence[str] = tuple(FILES)
    ) -> "Corpus":
        """The named parts of a folder, with the vocabulary of its training text, which
        must be among them.

        Every line, even an empty one, ends in END_OF_LINE. DataError for a file that is
        not UTF-8 or has no words.
        """
        read = {part: _words(Path(path) / FILES[part]) for part in parts}
        vocabulary = Vocabulary.of(read["train"][0], vocabulary_size)
        tokens = {part: vocabulary.encoded(words) for part, (words, _) in read.items()}
        return Corpus(
            Path(path),
            vocabulary,
            tokens,
            {part: sha256 for part, (_, sha256) in read.items()},
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


@dataclass(frozen=True)
class Passage:
    """tokens (B, T): of B columns. state: the hidden state after the previous passage.
    Its length is B.
    """

    tokens: Tensor
    state: Tensor

    def __len__(self) -> int:
        return len(self.tokens)


class Prediction(NamedTuple):
    """logits (B, T, V): of words. states (B, T, H): of the last layer. dropped: after
    dropout. state: the last one.
    """

    logits: Tensor
    states: Tensor
    dropped: Tensor
    state: Tensor


class TokenStream:
    """Endless passages of a text, each with the words that follow.

    The text is cut into batch_size columns of equal length, and these into passages of
    `length` words; rests are dropped. The hidden state is the last argument of `carry`,
    at the beginning state_of(batch_size). name: in errors.
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
            given = f"got {len(tokens)}; lower batch_size or sequence_length"
            raise SettingsError(f"{name} must have at least {words}, {given}")
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
        """Begin the next passage with this hidden state, detached from its graph."""
        self.state = state.detach()

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position, "state": self.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position, self.state = (
            state["position"],
            state["state"].to(self.columns.device),
        )


def columns_of(tokens: Tensor, n_columns: int) -> Tensor:
    """Reshape the text (N,) to (n_columns, N // n_columns), with one column of the text
    in each row.
    """
    return tokens[: len(tokens) // n_columns * n_columns].view(n_columns, -1)
