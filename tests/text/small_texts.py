"""A folder of text so small that a search on it ends in a second."""

import random
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

import hba
import hba.text
from hba.text.config import TextTrainingConfig
from hba.text.lstm import LstmLanguageModel
from hba.text.reader import Corpus

WORDS = "abcdefghij"
WORDS_OF_A_LINE = 5
LINES: Mapping[str, int] = MappingProxyType({"train": 50, "valid": 34, "test": 34})
SMALL: Mapping[str, Any] = MappingProxyType(
    {
        "vocabulary_size": 12,
        "width": 4,
        "layers": 2,
        "sequence_length": 5,
        "batch_size": 4,
        "epochs": 2,
        "learning_rate": 5.0,
        "device": "cpu",
    }
)


def write_texts(folder: Path, lines: Mapping[str, int] = LINES, seed: int = 0) -> Path:
    """Every word tells the next one, but in a fifth of all cases."""
    random_numbers = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for name, n_lines in lines.items():
        word = 0
        text = ""
        for _ in range(n_lines):
            line = []
            for _ in range(WORDS_OF_A_LINE):
                line.append(WORDS[word])
                word = (3 * word + 1 + (random_numbers.random() < 0.2)) % len(WORDS)
            text += " ".join(line) + "\n"
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return folder


def small_search(data: Path | None, **settings: Any) -> hba.SearchResult:
    """Lambda moves from the first epoch on, unless the settings say otherwise."""
    return hba.text.search(data, **{**SMALL, "warm_up_epochs": 0, **settings})


def training_config(**settings: Any) -> TextTrainingConfig:
    return TextTrainingConfig.make({**SMALL, "data": "nowhere", **settings})


def tokens_of(folder: Path) -> dict[str, Tensor]:
    return dict(Corpus.read(folder, SMALL["vocabulary_size"]).tokens)


def small_network(
    n_layers: int = 2, n_words: int = 12, width: int = 4, seed: int = 0
) -> LstmLanguageModel:
    """Its weights are larger than at the start of a training, so that all of them
    matter.
    """
    network = LstmLanguageModel(n_words, width, n_layers)
    generator = torch.Generator().manual_seed(seed)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.7, generator=generator)
    return network
