"""Loss and perplexity of a text, against logarithms taken one by one."""

import itertools
import math

import numpy as np
import pytest
import torch
from small_texts import small_network
from torch import Tensor

from hba.tasks import Language
from hba.tasks.language import Prediction
from hba.text.lstm import MEASURE_COLUMNS, measured_loss, perplexity
from hba.text.reader import Passage

N_WORDS = 12


def text(n_words: int) -> Tensor:
    return torch.randint(
        N_WORDS, (n_words,), generator=torch.Generator().manual_seed(0)
    )


def prediction_of(logits: Tensor) -> Prediction:
    nothing = torch.zeros(())
    return Prediction(logits, nothing, nothing)


def loss_word_by_word(n_words: int) -> float:
    """Each column alone, a word at a time."""
    network = small_network().eval()
    words = text(n_words)
    n_columns = min(MEASURE_COLUMNS, n_words // 2)
    losses = []
    for column in np.array_split(
        words[: n_words // n_columns * n_columns].numpy(), n_columns
    ):
        state = network.zero_state(1)
        for word, following in itertools.pairwise(column):
            passage = Passage(torch.tensor([[word]]), state)
            prediction = network(passage)
            state = passage.next_state
            logits = prediction.logits[0, 0].detach().double().numpy()
            losses.append(np.log(np.exp(logits).sum()) - logits[following])
    return float(np.mean(losses))


@pytest.mark.parametrize("n_words", [2, 5, 104])
def test_without_dropout_the_loss_of_a_text_is_its_words_mean_whatever_the_passages(
    n_words: int,
) -> None:
    for length in (1, 4, 1000):
        network = small_network().train(length > 1)
        network.output.p = network.weights.p = 0.9
        assert measured_loss(network, text(n_words), length) == pytest.approx(
            loss_word_by_word(n_words)
        )
        assert network.training is (length > 1)


def test_loss_and_error_are_means_over_all_words_of_all_columns() -> None:
    logits = torch.randn(
        3, 4, N_WORDS, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    following = text(12).view(3, 4)
    losses = []
    errors = []
    for row, words in zip(logits.numpy(), following.numpy(), strict=True):
        for numbers, word in zip(row, words, strict=True):
            losses.append(-math.log(np.exp(numbers[word]) / np.exp(numbers).sum()))
            errors.append(numbers.argmax() != word)
    task = Language()
    prediction = prediction_of(logits)
    assert float(task.loss(prediction, following)) == pytest.approx(np.mean(losses))
    of_columns = task.losses(prediction, following)
    assert of_columns.tolist() == pytest.approx(np.reshape(losses, (3, 4)).mean(axis=1))
    error = float(task.error_share(prediction, following))
    assert error == pytest.approx(np.mean(errors))


def test_perplexity_is_the_exponential_and_stays_a_number_where_there_is_a_loss() -> (
    None
):
    assert perplexity(math.log(50)) == pytest.approx(50)
    assert math.isfinite(perplexity(1e6))
    assert math.isnan(perplexity(math.nan))
