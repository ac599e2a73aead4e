"""Loss and perplexity of a language model on a whole text."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from hba.text.lstm import LstmLanguageModel
from hba.text.passages import Passage, Prediction, once

MEASURE_COLUMNS = 10
"""A text is measured in so many columns side by side, each of which begins without a past."""
MOST_SHOWN = 1e6
"""Above it, decimals say nothing."""
MOST_NATS = 700.0
"""More would be no finite perplexity."""


def next_word_loss(prediction: Prediction, following: Tensor) -> Tensor:
    """Mean cross entropy () in nats of the words (B, T) that follow."""
    return F.cross_entropy(prediction.logits.flatten(0, 1), following.flatten())


def next_word_error(prediction: Prediction, following: Tensor) -> Tensor:
    """Share () of words that are not the likeliest next one."""
    return (prediction.logits.argmax(2) != following).float().mean()


@torch.no_grad()
def measured_loss(network: LstmLanguageModel, tokens: Tensor, length: int) -> float:
    """Mean loss in nats of a word of the text (N,), but for the first of each column and what the columns leave over.

    The network runs in eval mode and returns to the mode that it was in. The host waits for the device at the end only.
    """
    was_training = network.training
    network.eval()
    n_columns = max(1, min(MEASURE_COLUMNS, len(tokens) // 2))
    state = network.zero_state(n_columns)
    total, count = torch.zeros((), device=tokens.device, dtype=torch.float64), 0
    for words, following in once(tokens, n_columns, length):
        prediction = network(Passage(words, state))
        total += F.cross_entropy(prediction.logits.flatten(0, 1), following.flatten(), reduction="sum")
        state, count = prediction.state, count + following.numel()
    network.train(was_training)
    return float(total) / count


def in_words(perplexity: float) -> str:
    """A perplexity as people read it, also one that says that nothing was learnt."""
    if perplexity >= math.exp(MOST_NATS):
        return f"more than {math.exp(MOST_NATS):.0e}"
    return f"{perplexity:.1f}" if perplexity < MOST_SHOWN else f"{perplexity:.1e}"


def perplexity(loss: float) -> float:
    """exp of a mean loss in nats; not a number for a loss that is none."""
    return math.exp(min(loss, MOST_NATS)) if not math.isnan(loss) else math.nan
