"""An ordinary training of a language model, by the regularisation of a schedule, epoch by epoch."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from hba.errors import DivergedError
from hba.regularization.regularization import Regularization
from hba.schedule.schedule import Schedule
from hba.text.config import TextTrainingConfig
from hba.text.corpus import FILES
from hba.text.lstm import LstmLanguageModel
from hba.text.measure import measured_loss, next_word_loss
from hba.text.passages import TokenStream
from hba.text.task import network_of, optimizer_of
from hba.utils.seeding import default_generators, derived_seed


@dataclass(frozen=True)
class TextTrained:
    """Mean losses in nats of a word after the last epoch: val_loss, test_loss. val_losses: of all epochs."""

    network: LstmLanguageModel
    val_loss: float
    test_loss: float
    val_losses: tuple[float, ...]


def train(
    config: TextTrainingConfig,
    tokens: Mapping[str, Tensor],
    n_words: int,
    schedule: Schedule,
    seed: int,
    on_step: Callable[[], None] = lambda: None,
) -> TextTrained:
    """Train on tokens["train"], and measure the test text once, after the last epoch.

    tokens: the three texts (N,), on their device. The learning rate waits for the loss on tokens["valid"], as in a
    search. The seed decides weights and draws; no network begins as one of a search. Raises DivergedError for a loss
    that is not finite.
    """
    device = tokens["train"].device
    schedule = schedule.stretched(config.epochs)
    regularization = Regularization(schedule.space.regularizers, schedule.space.n_of_policy)
    network = network_of(config, n_words, derived_seed(seed, "an evaluation on text")).to(device)
    optimizer, learning_rate = optimizer_of(config, network.parameters())
    stream = TokenStream(tokens["train"], config.batch_size, config.sequence_length, network.zero_state, FILES["train"])
    val_losses = []
    with default_generators(device, derived_seed(seed, "default generators of an evaluation on text")):
        for epoch in range(config.epochs):
            regularization.give(network, optimizer, schedule.regularization(epoch))
            values = torch.tensor(schedule.values[epoch], dtype=torch.float32, device=device)
            _train_an_epoch(network, stream, optimizer, regularization, values, on_step)
            val_losses.append(measured_loss(network, tokens["valid"], config.sequence_length))
            if not math.isfinite(val_losses[-1]):
                raise DivergedError(
                    f"the loss of epoch {epoch + 1} is not finite; try a learning rate below {config.learning_rate:g}"
                )
            learning_rate.observe(val_losses[-1])
    test_loss = measured_loss(network, tokens["test"], config.sequence_length)
    return TextTrained(network, val_losses[-1], test_loss, tuple(val_losses))


def _train_an_epoch(
    network: LstmLanguageModel,
    stream: TokenStream,
    optimizer: torch.optim.Optimizer,
    regularization: Regularization,
    values: Tensor,
    on_step: Callable[[], None],
) -> None:
    """values (n,): the schedule's row."""
    network.train()
    for _ in range(stream.batches_per_pass):
        passage, following = stream.next()
        prediction = network(passage)
        stream.carry(prediction.state)
        loss = next_word_loss(prediction, following) + regularization.penalty(prediction, following, values)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        on_step()
