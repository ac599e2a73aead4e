"""A folder of text as numbers."""

import hashlib
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


def test_a_word_outside_of_the_vocabulary_is_the_unknown_one() -> None:
    assert Vocabulary.of(["x", "y", "x"], 3).encoded(["x", "y", "<eos>", "<unk>", "X"]).tolist() == [2, 0, 1, 0, 0]


def test_every_line_ends_in_a_word_of_its_own_an_empty_one_too(folder: Path) -> None:
    corpus = Corpus.read(folder, 100)
    assert " ".join(words_of(corpus, "train")) == "b a c <eos> <eos> b a <unk> d <eos> b <eos>"
    assert words_of(corpus, "test") == ["<unk>", "b", "<eos>"]


def test_the_vocabulary_is_that_of_the_training_text_alone(folder: Path) -> None:
    corpus = Corpus.read(folder, 100)
    assert corpus.vocabulary.words == ("<unk>", "<eos>", "b", "a", "c", "d")
    assert words_of(corpus, "valid") == ["a", "<unk>", "<eos>"]


def test_a_small_vocabulary_makes_more_words_unknown(folder: Path) -> None:
    corpus = Corpus.read(folder, 3)
    assert words_of(corpus, "valid") == ["<unk>", "<unk>", "<eos>"]
    assert {name: (len(text), text.unknown) for name, text in corpus.texts.items()} == {
        "train": (12, 5),
        "valid": (3, 2),
        "test": (3, 1),
    }


def test_a_text_is_known_by_the_digest_of_its_file(folder: Path) -> None:
    for name, text in Corpus.read(folder, 100).texts.items():
        assert text.sha256 == hashlib.sha256(TEXTS[name].encode()).hexdigest()


def test_only_the_named_parts_are_opened(folder: Path) -> None:
    (folder / "test.txt").unlink()
    assert list(Corpus.read(folder, 100, ("train", "valid")).texts) == ["train", "valid"]


def test_lines_of_windows_are_lines(folder: Path) -> None:
    (folder / "valid.txt").write_bytes(b"a b\r\nc\r\n")
    assert words_of(Corpus.read(folder, 100), "valid") == ["a", "b", "<eos>", "c", "<eos>"]


def refusal_of(folder: Path) -> str:
    with pytest.raises(DataError) as caught:
        Corpus.read(folder, 100)
    return str(caught.value)


def test_what_is_no_folder_is_refused(folder: Path) -> None:
    for path in (folder / "nowhere", folder / "train.txt"):
        assert refusal_of(path) == f"there must be a folder with train.txt, valid.txt, test.txt, got {path}"


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "valid.txt").unlink()
    assert refusal_of(folder) == (f"there is no valid.txt in {folder}; it must have train.txt, valid.txt, test.txt")


def test_a_folder_in_the_place_of_a_file_cannot_be_read(folder: Path) -> None:
    (folder / "test.txt").unlink()
    (folder / "test.txt").mkdir()
    assert refusal_of(folder).startswith(f"{folder / 'test.txt'} cannot be read: ")


def test_what_is_not_utf_8_is_refused_with_its_place(folder: Path) -> None:
    (folder / "train.txt").write_bytes(b"a " + "\u00fc".encode("latin-1"))
    assert refusal_of(folder) == f"{folder / 'train.txt'} must be text in UTF-8, but byte 2 is not; save it as UTF-8"


@pytest.mark.parametrize("content", ["", "\n", " \n\t\n"])
def test_a_file_without_words_is_refused(content: str, folder: Path) -> None:
    (folder / "valid.txt").write_text(content, encoding="utf-8")
    assert refusal_of(folder) == f"{folder / 'valid.txt'} must hold words between blanks, but there are none"
