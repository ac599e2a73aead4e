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


def words_of(corpus: Corpus, part: str) -> list[str]:
    return [corpus.vocabulary.words[number] for number in corpus.texts[part].tokens.tolist()]


def test_a_vocabulary_has_the_most_frequent_words_and_of_equal_ones_the_first_in_the_alphabet() -> None:
    words = [*"dcbadcde"]
    assert Vocabulary.of(words, 100).words == ("<unk>", "<eos>", "d", "c", "a", "b", "e")
    assert Vocabulary.of(words, 5).words == ("<unk>", "<eos>", "d", "c", "a")
    assert len(Vocabulary.of(words, 5)) == 5


def test_the_words_that_every_vocabulary_has_are_in_it_once_however_frequent() -> None:
    assert Vocabulary.of(["<unk>"] * 3 + ["<eos>"] * 9 + ["x"], 100).words == ("<unk>", "<eos>", "x")


def test_every_line_ends_in_a_word_of_its_own_an_empty_one_too(folder: Path) -> None:
    corpus = Corpus.read(folder, 100)
    assert " ".join(words_of(corpus, "train")) == "b a c <eos> <eos> b a <unk> d <eos> b <eos>"
    assert words_of(corpus, "test") == ["<unk>", "b", "<eos>"]


def test_the_vocabulary_is_that_of_the_training_text_alone(folder: Path) -> None:
    corpus = Corpus.read(folder, 100)
    assert corpus.vocabulary.words == ("<unk>", "<eos>", "b", "a", "c", "d")
    assert words_of(corpus, "valid") == ["a", "<unk>", "<eos>"]


def test_only_the_named_parts_are_opened(folder: Path) -> None:
    (folder / "test.txt").unlink()
    assert list(Corpus.read(folder, 100, ("train", "valid")).texts) == ["train", "valid"]


def refusal_of(folder: Path) -> str:
    with pytest.raises(DataError) as caught:
        Corpus.read(folder, 100)
    return str(caught.value)


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "valid.txt").unlink()
    assert str(folder / "valid.txt") in refusal_of(folder)


def test_what_is_not_utf_8_is_refused_with_its_place(folder: Path) -> None:
    (folder / "train.txt").write_bytes(b"a " + "\u00fc".encode("latin-1"))
    assert "train.txt" in refusal_of(folder)
    assert "byte 2" in refusal_of(folder)


@pytest.mark.parametrize("content", ["", "\n", " \n\t\n"])
def test_a_file_without_words_is_refused(content: str, folder: Path) -> None:
    (folder / "valid.txt").write_text(content, encoding="utf-8")
    assert "valid.txt" in refusal_of(folder)
