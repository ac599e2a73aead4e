"""A folder of text as numbers."""

from pathlib import Path

import pytest

from hba.errors import DataError
from hba.text.reader import Corpus, Vocabulary

TEXTS = {"train": "b a c\n\nb a <unk> d\nb", "valid": "a z\n", "test": " q\t b  \n"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in TEXTS.items():
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
    return tmp_path


def test_a_vocabulary_has_the_most_frequent_words_then_the_first_by_alphabet() -> None:
    """<unk> and <eos> are in it once, however frequent they are."""
    words = [*"dcbadcde"]
    assert Vocabulary.of(words, 100).words == (
        "<unk>",
        "<eos>",
        "d",
        "c",
        "a",
        "b",
        "e",
    )
    assert Vocabulary.of(words, 5).words == ("<unk>", "<eos>", "d", "c", "a")
    assert Vocabulary.of(["<unk>"] * 3 + ["<eos>"] * 9 + ["x"], 100).words == (
        "<unk>",
        "<eos>",
        "x",
    )


def test_texts_are_numbered_by_words_of_the_training_text_and_lines_end_in_a_word(
    folder: Path,
) -> None:
    corpus = Corpus.read(folder, 100)
    assert corpus.vocabulary.words == ("<unk>", "<eos>", "b", "a", "c", "d")
    read = {
        split: " ".join(corpus.vocabulary.words[number] for number in tokens.tolist())
        for split, tokens in corpus.tokens.items()
    }
    assert read["train"] == "b a c <eos> <eos> b a <unk> d <eos> b <eos>"
    assert (read["valid"], read["test"]) == ("a <unk> <eos>", "<unk> b <eos>")
    (folder / "test.txt").unlink()
    assert list(Corpus.read(folder, 100, ("train", "valid")).tokens) == [
        "train",
        "valid",
    ], "no other part is opened"


def test_a_file_that_cannot_be_used_is_named(folder: Path) -> None:
    for content in ("", "\n", " \n\t\n", b"a " + "\u00fc".encode("latin-1"), None):
        (folder / "valid.txt").unlink()
        if content is not None:
            (folder / "valid.txt").write_bytes(
                content.encode() if isinstance(content, str) else content
            )
        with pytest.raises(
            DataError, match="position 2" if isinstance(content, bytes) else None
        ) as raised:
            Corpus.read(folder, 100)
        assert str(folder / "valid.txt") in str(raised.value)
        (folder / "valid.txt").touch()
