"""A text in passages, against plain slices of numbers."""

import pytest
import torch
from torch import Tensor

from hba.errors import SettingsError
from hba.text.reader import TokenStream

N_WORDS = 37
"""12 words in each column, so two passages and words left over."""
COLUMNS = 3
LENGTH = 4
"""Words of each column in a passage."""


def counted_state(n_columns: int) -> Tensor:
    return torch.zeros(2, 1, n_columns, 2)


def stream(
    n_words: int = N_WORDS, batch_size: int = COLUMNS, length: int = LENGTH
) -> TokenStream:
    return TokenStream(torch.arange(n_words), batch_size, length, counted_state)


def test_a_pass_reads_each_column_in_its_order_with_the_words_that_follow() -> None:
    passages = stream()
    assert passages.batches_per_pass == 2
    for number in (0, 1, 0, 1, 0):
        passage, following = passages.next()
        first = [12 * column + LENGTH * number for column in range(COLUMNS)]
        assert passage.tokens.tolist() == [
            list(range(start, start + LENGTH)) for start in first
        ]
        assert following.tolist() == [
            list(range(start + 1, start + 1 + LENGTH)) for start in first
        ]
        assert len(passage) == COLUMNS


def test_passages_begin_with_the_state_left_before_and_passes_with_the_first() -> None:
    passages = stream()
    for _ in range(2):
        first, _ = passages.next()
        assert torch.equal(first.state, counted_state(COLUMNS))
        left = torch.randn(2, 1, COLUMNS, 2)
        first.end_in(left)
        second, _ = passages.next()
        assert torch.equal(second.state, left)
        second.end_in(left + 1)


def test_only_the_first_network_that_reads_a_passage_decides_the_state_after_it() -> (
    None
):
    passages = stream()
    passage, _ = passages.next()
    left = torch.randn(2, 1, COLUMNS, 2, requires_grad=True)
    passage.end_in(left)
    passage.end_in(left + 1)
    assert torch.equal(passages.state, left)
    assert not passages.state.requires_grad


def test_a_text_must_have_a_passage_and_a_word_more_in_each_column() -> None:
    assert stream(COLUMNS * (LENGTH + 1)).batches_per_pass == 1
    with pytest.raises(
        SettingsError,
        match=r"at least 15 words for 3 columns of 4 words and one more, got 14; ",
    ):
        stream(COLUMNS * (LENGTH + 1) - 1)
