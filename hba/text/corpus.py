"""A folder of text as numbers: train.txt, valid.txt and test.txt, words between blanks, one vocabulary."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import torch
from torch import Tensor

from hba.errors import DataError

FILES: Mapping[str, str] = MappingProxyType({"train": "train.txt", "valid": "valid.txt", "test": "test.txt"})
END_OF_LINE = "<eos>"
UNKNOWN = "<unk>"
ALWAYS = (UNKNOWN, END_OF_LINE)
"""Words that every vocabulary has; the first stands for all that it has not."""
FEWEST_MEASURED = 20
"""Words: two in each of the ten columns that a text is measured in."""


@dataclass(frozen=True)
class Vocabulary:
    """words: by number. The first is UNKNOWN."""

    words: tuple[str, ...]

    @staticmethod
    def of(words: Iterable[str], size: int) -> "Vocabulary":
        """The most frequent `size` words, ALWAYS among them; of equally frequent ones, those first in the alphabet."""
        counts = Counter(words)
        for word in ALWAYS:
            counts.pop(word, None)
        by_frequency = sorted(counts, key=lambda word: (-counts[word], word))
        return Vocabulary((*ALWAYS, *by_frequency)[:size])

    def __len__(self) -> int:
        return len(self.words)

    def encoded(self, words: Sequence[str]) -> Tensor:
        """Numbers (N,) of the words, int64."""
        numbers = {word: number for number, word in enumerate(self.words)}
        return torch.tensor([numbers.get(word, 0) for word in words], dtype=torch.int64)


@dataclass(frozen=True)
class Text:
    """tokens (N,): a text in its order, int64. unknown: how many of them are UNKNOWN. sha256: of the file."""

    tokens: Tensor
    unknown: int
    sha256: str

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class Corpus:
    """texts: by the names of FILES, those that were read."""

    path: Path
    vocabulary: Vocabulary
    texts: Mapping[str, Text]

    @staticmethod
    def read(path: str | Path, vocabulary_size: int, parts: Sequence[str] = tuple(FILES)) -> "Corpus":
        """The named parts of a folder, with the vocabulary of its training text alone, which must be among them.

        A line ends in END_OF_LINE, an empty one too. Raises DataError for what is no such folder, for a file that
        cannot be read as UTF-8, and for one without words.
        """
        folder = Path(path)
        if not folder.is_dir():
            raise DataError(f"there must be a folder with {', '.join(FILES.values())}, got {folder}")
        read = {part: _words(folder / FILES[part]) for part in parts}
        vocabulary = Vocabulary.of(read["train"][0], vocabulary_size)
        texts = {}
        for part, (words, sha256) in read.items():
            tokens = vocabulary.encoded(words)
            texts[part] = Text(tokens, int((tokens == 0).sum()), sha256)
        return Corpus(folder, vocabulary, MappingProxyType(texts))

    def check_measured(self, *parts: str) -> None:
        """DataError for a text that says nothing of a model."""
        for part in parts:
            if len(self.texts[part]) < FEWEST_MEASURED:
                raise DataError(
                    f"{self.path / FILES[part]} must hold at least {FEWEST_MEASURED} words, to measure a model by, got "
                    f"{len(self.texts[part])}, ends of lines among them"
                )


def _words(path: Path) -> tuple[list[str], str]:
    """All words of a file, and its SHA-256."""
    try:
        content = path.read_bytes()
        text = content.decode("utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"there is no {path.name} in {path.parent}; it must have {', '.join(FILES.values())}") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} must be text in UTF-8, but byte {error.start} is not; save it as UTF-8") from None
    # Other tools end a line here alone, not at every character that Unicode calls an end.
    lines = text.removesuffix("\n").split("\n")
    words = [word for line in lines for word in (*line.split(), END_OF_LINE)]
    if all(word == END_OF_LINE for word in words):
        raise DataError(f"{path} must hold words between blanks, but there are none")
    return words, hashlib.sha256(content).hexdigest()
